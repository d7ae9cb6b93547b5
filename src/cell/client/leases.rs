//! Calls about leases.

use std::time::Duration;

use pgrx::datum::Interval;
use pgrx::pg_sys::{self, Oid};
use serde_json::{Value, json};
use uuid::Uuid;

use super::Service;
use super::answer::{Answer, AnswerRow, each_asked, each_once};
use super::call::{Call, RETURNS_PROCESS};
use super::naming::RequiredNaming;
use super::parameters::{interval, number, text, texts, uuid, uuids};
use super::presented::{self, Presented, pair_and_place, presenting};
use super::question::Question;
use super::settlement::{OUTCOME_NAMES, Settled, Settlement};
use crate::error::ClaimsError;
use crate::settings;
use pg::libpq::{Command, Expected, Mismatch};
use pg::xid8::Xid8;

/// Begins a lease. WHERE checks the required naming before the lease begins. The second column is the process that has answered, by
/// which the connection knows whether it is always the same one.
const BEGIN: &str =
    "SELECT claims.begin_update_text(claims.acting_cell($1, $9, $10, $11), $2, $3, $4, $5), pg_catalog.pg_backend_pid()
            WHERE (claims.require_naming($6, $7, $8) IS NULL) IS NOT NULL";
/// Hands the session's wait for names to the service, for the next statement.
const WAIT: &str = "SELECT pg_catalog.set_config('claims.lease_wait', $1::pg_catalog.text, true),
                  pg_catalog.set_config('claims.lease_priority', $2::pg_catalog.text, true)";
const BEGIN_TYPES: [Oid; 11] = [
    pg_sys::INT8OID,
    pg_sys::TEXTOID,
    pg_sys::TEXTOID,
    pg_sys::UUIDOID,
    pg_sys::XID8OID,
    pg_sys::TEXTOID,
    pg_sys::TEXTARRAYOID,
    pg_sys::TEXTARRAYOID,
    pg_sys::INT8OID,
    pg_sys::INT8OID,
    pg_sys::INT8OID,
];
/// Reads one lease, and whether recovery may treat it as stale. A lease dated in the future is stale: the clock has jumped, so its age
/// is unknown.
const ONE: &str = "SELECT d.lease_uuid, d.cell_xid, d.created_at OPERATOR(pg_catalog.<=)
                  (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) pg_catalog.make_interval(secs => $2::pg_catalog.float8))
                  OR d.created_at OPERATOR(pg_catalog.>) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) '1 minute'::pg_catalog.interval
                      OPERATOR(pg_catalog.+) pg_catalog.make_interval(secs => $2::pg_catalog.float8))
             FROM claims.lease_details($1::pg_catalog.uuid) AS d";
const OUTCOMES: &str = "SELECT lease, claims.lease_outcome($1::pg_catalog.int8, lease)
             FROM pg_catalog.unnest($2::pg_catalog.uuid[]) AS lease";
/// Lists leases. The service's clock, which dated the leases, says how old they are. A lease dated as far in the future, and one
/// minute more, counts as stale: its age is unknown, and fencing it first is safe.
const LIST: &str = "SELECT lease_uuid, cell_xid, \"cursor\",
                  created_at OPERATOR(pg_catalog.<=) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-)
                      pg_catalog.make_interval(months => $4::pg_catalog.int4, days => $5::pg_catalog.int4, secs => $6::pg_catalog.float8))
                  OR created_at OPERATOR(pg_catalog.>) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) '1 minute'::pg_catalog.interval OPERATOR(pg_catalog.+)
                      pg_catalog.make_interval(months => $4::pg_catalog.int4, days => $5::pg_catalog.int4, secs => $6::pg_catalog.float8))
             FROM claims.list_leases($1::pg_catalog.int8, $2::pg_catalog.text, $3::pg_catalog.int4)";
/// Returns the leases that hold buckets. It reads only leases up to an age: the list is long if recovery has not run for a while.
const HOLDERS: &str = "SELECT l.lease_uuid, l.cell_xid
             FROM claims.list_leases($1::pg_catalog.int8, NULL, $2::pg_catalog.int4, pg_catalog.clock_timestamp()
                      OPERATOR(pg_catalog.-) pg_catalog.make_interval(secs => $3::pg_catalog.float8)) AS l
            WHERE l.lease_uuid OPERATOR(pg_catalog.=) ANY (SELECT r.lease_uuid
                      FROM pg_catalog.unnest($4::pg_catalog.text[]) AS portion
                     CROSS JOIN LATERAL claims.get_records(portion::pg_catalog.jsonb) AS r)";

/// Reads the largest number of records that the service takes from a cell in one batch.
const BATCH_LIMIT: &str = "SELECT claims.batch_limit($1::pg_catalog.int8)";

/// Maximum number of leases that are searched for those that hold a bucket. The service lists no more in one call.
const MAX_LISTED: i64 = 10_000;
/// Number of buckets of one get_records(). The service takes 10,000 in a call and answers with at most 16 MiB: 500 of the largest
/// records fit.
const PORTION: usize = 500;

pub struct BeginRequest {
    pub cell_id: i64,
    pub lease: Uuid,
    /// A JSON list of records.
    pub creates: String,
    pub destroys: String,
    /// The id of the local transaction.
    pub cell_xid: Xid8,
    pub naming: RequiredNaming,
    pub wait: Option<HandedWait>,
}

/// How long and with which priority the service waits for names that other leases hold.
#[derive(Debug, Clone, Copy)]
pub struct HandedWait {
    pub time: Duration,
    pub priority: i32,
}

pub struct OutstandingLease {
    pub lease: Uuid,
    pub cell_xid: Option<Xid8>,
    /// Whether it is older than the requested age.
    pub stale: bool,
}

pub struct LeasePage {
    pub leases: Vec<OutstandingLease>,
    /// The cursor at which the next page begins.
    pub last_cursor: Option<String>,
}

impl BeginRequest {
    /// Returns the call that begins the lease, without a wait for names, and presents an epoch.
    fn command(&self, presented: Presented) -> Command {
        let BeginRequest { cell_id, lease, creates, destroys, cell_xid, naming, .. } = self;
        let [unicode, bucket_types, profiles] = naming.values();
        let [epoch, predecessor, place] = pair_and_place(presented);
        let cell_xid = Some(cell_xid.0.to_string());
        let (cell_id, creates, destroys, uuid) = (number(*cell_id), text(creates), text(destroys), uuid(*lease));
        let naming = [unicode, bucket_types, profiles];
        let values = [cell_id, creates, destroys, uuid, cell_xid].into_iter().chain(naming);
        let values: Vec<_> = values.chain([epoch, predecessor, place]).collect();
        let question = Question { text: BEGIN, values: &values, expected: Expected::one_row(2) };
        question.frequent_command(RETURNS_PROCESS, &BEGIN_TYPES)
    }

    fn begun(&self, answer: Answer) -> Result<(), Mismatch> {
        let (begun, _process) = answer.only(|row| Ok((row.uuid(1)?, row.number(2)?)))?;
        if begun == self.lease { Ok(()) } else { Err(Mismatch::Value(begun.to_string())) }
    }
}

/// The time that a service has to answer once the answer of another one was awaited.
const GRACE: Duration = Duration::from_millis(20);

/// Begins one lease at each of several services, without a wait for names. All begins are sent before the first answer is awaited. Each
/// service has what is left of its limit. Calls `has_begun` with the position of a request whose lease has begun, and the epoch, before the
/// next answer is awaited. Returns the answers in the order of the requests; those of leases that have begun are the epochs. The error is
/// that of a service that cannot be called; then nothing was sent to any of them.
pub fn begin_together(
    requests: &[(&Service, &BeginRequest, Duration)],
    has_begun: impl Fn(usize, Presented),
) -> Result<Vec<Result<Presented, ClaimsError>>, ClaimsError> {
    let first =
        |(service, request, _): &(&Service, &BeginRequest, Duration)| presented::first(request.cell_id, service.name());
    let presented: Vec<_> = requests.iter().map(first).collect();
    let commands: Vec<_> = requests.iter().zip(&presented).map(|((_, request, _), it)| request.command(*it)).collect();
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|at| requests[*at].0.oid().to_u32());
    let mut calls: Vec<(usize, Call)> = Vec::new();
    let prepare_all = || {
        // The session waits for a place without having a turn anywhere. It has connections to services with smaller oids only.
        for at in order {
            let (service, _, limit) = requests[at];
            let mut call = Call::prepare(service, std::slice::from_ref(&commands[at]), service.time_left(limit))?;
            call.pause();
            calls.push((at, call));
        }
        calls.iter_mut().try_for_each(|(_, call)| call.resume())
    };
    if let Err(error) = prepare_all() {
        calls.into_iter().for_each(|(_, call)| call.give_up());
        return Err(error);
    }
    calls.iter_mut().for_each(|(_, call)| call.send());
    let note = |at: usize, answer: Result<(), ClaimsError>| {
        if answer.is_ok() {
            has_begun(at, presented[at]);
        }
        (at, answer.map(|()| presented[at]))
    };
    let (mut answers, mut to_repeat) = (Vec::new(), Vec::new());
    for (at, call) in calls {
        match call.answer_once(GRACE, |answer| requests[at].1.begun(answer)).transpose() {
            Some(answer) => answers.push(note(at, answer)),
            None => to_repeat.push(at),
        }
    }
    for at in to_repeat {
        let (service, request, limit) = requests[at];
        let command = std::slice::from_ref(&commands[at]);
        answers.push(note(at, service.run(command, service.time_left(limit), |answer| request.begun(answer))));
    }
    answers.sort_by_key(|(at, _)| *at);
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}

impl Service<'_> {
    /// Begins a lease, within what is left of a limit. The service must answer with the lease's uuid and the number of a process;
    /// otherwise the lease does not count as begun. Returns the epoch that the service has accepted.
    pub fn begin(&self, request: &BeginRequest, limit: Duration) -> Result<Presented, ClaimsError> {
        let begin = |presented| {
            let begin = request.command(presented);
            let left = self.time_left(limit);
            let read = |answer: Answer| request.begun(answer);
            let Some(HandedWait { time, priority }) = request.wait else { return self.run(&[begin], left, read) };
            let values = [number(i64::try_from(time.as_millis()).unwrap_or(0)), number(priority.into())];
            let wait = Question { text: WAIT, values: &values, expected: Expected::one_row(2) };
            self.run_waiting(time, &[wait.command(), begin], left, read)
        };
        presenting(request.cell_id, self.name(), self.shower(request.cell_id, limit), begin)
            .map(|(presented, ())| presented)
    }

    /// Returns the largest number of records that a batch may have, at least 1.
    pub fn batch_limit(&self, cell_id: i64, timeout: Duration) -> Result<usize, ClaimsError> {
        let question = Question { text: BATCH_LIMIT, values: &[number(cell_id)], expected: Expected::one_row(1) };
        self.ask(question, timeout, |answer| {
            let limit = answer.only(|row| row.number(1))?;
            usize::try_from(limit).ok().filter(|limit| *limit > 0).ok_or_else(|| Mismatch::Value(limit.to_string()))
        })
    }

    /// Commits a lease. Returns `false` if it had been committed before.
    pub fn commit(&self, cell_id: i64, lease: Uuid, timeout: Duration) -> Result<bool, ClaimsError> {
        let settlement = Settlement { commits: vec![lease], ..Settlement::default() };
        let commit = |presented| {
            self.run(&[settlement.command(cell_id, presented)], timeout, |answer| answer.only(|row| row.boolean(1)))
        };
        presenting(cell_id, self.name(), self.shower(cell_id, timeout), commit).map(|(_, is_new)| is_new)
    }

    /// Returns the outcomes of leases; `None` for an unknown lease.
    pub fn lease_outcomes(
        &self,
        cell_id: i64,
        leases: &[Uuid],
        timeout: Duration,
    ) -> Result<Vec<(Uuid, Option<String>)>, ClaimsError> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let outcome = |row: &AnswerRow| Ok((row.uuid(1)?, row.word_or_null(2, &OUTCOME_NAMES)?.map(str::to_owned)));
        let expected = Expected::rows(leases.len()..=leases.len(), 2);
        let question = Question { text: OUTCOMES, values: &[number(cell_id), uuids(leases)], expected };
        self.ask(question, timeout, |answer| each_asked(leases, answer.map(outcome)?, |(lease, _)| *lease))
    }

    /// Returns a lease if it is outstanding.
    pub fn outstanding(&self, lease: Uuid, timeout: Duration) -> Result<Option<OutstandingLease>, ClaimsError> {
        let values = [uuid(lease), Some(settings::stale_after().as_secs().to_string())];
        let question = Question { text: ONE, values: &values, expected: Expected::rows(0..=1, 3) };
        let outstanding = |row: &AnswerRow| {
            Ok(OutstandingLease { lease: row.uuid(1)?, cell_xid: row.xid8_or_null(2)?, stale: row.boolean(3)? })
        };
        self.ask(question, timeout, |answer| match answer.first(outstanding)? {
            Some(other) if other.lease != lease => Err(Mismatch::Value(other.lease.to_string())),
            found => Ok(found),
        })
    }

    /// Settles leases, for a pass that has presented its epoch.
    pub fn settle_leases(
        &self,
        cell_id: i64,
        commits: &[Uuid],
        rollbacks: &[Uuid],
        timeout: Duration,
    ) -> Result<Vec<Settled>, ClaimsError> {
        let settlement = Settlement::of(commits, rollbacks);
        self.run(&[settlement.listed(cell_id)], timeout, |answer| settlement.each_settled(answer))
    }

    /// Like [`Service::settle_leases`], and presents an epoch.
    pub fn settle_leases_as(
        &self,
        cell_id: i64,
        presented: Presented,
        commits: &[Uuid],
        rollbacks: &[Uuid],
        timeout: Duration,
    ) -> Result<Vec<Settled>, ClaimsError> {
        let settlement = Settlement::of(commits, rollbacks);
        self.run(&[settlement.listed_as(cell_id, presented)], timeout, |answer| settlement.each_settled(answer))
    }

    /// Like [`Service::settle_leases_as`], with the epoch that is committed here. Call it in a transaction.
    pub fn settle_own_leases(
        &self,
        cell_id: i64,
        commits: &[Uuid],
        rollbacks: &[Uuid],
        timeout: Duration,
    ) -> Result<Vec<Settled>, ClaimsError> {
        let settle = |presented| self.settle_leases_as(cell_id, presented, commits, rollbacks, self.time_left(timeout));
        presenting(cell_id, self.name(), self.shower(cell_id, timeout), settle).map(|(_, settled)| settled)
    }

    /// Returns a page of a cell's outstanding leases.
    pub fn list_leases(
        &self,
        cell_id: i64,
        after: Option<String>,
        max_results: i64,
        stale_after: Interval,
        timeout: Duration,
    ) -> Result<LeasePage, ClaimsError> {
        let [months, days, seconds] = interval(stale_after);
        let values = [number(cell_id), after.clone(), number(max_results), months, days, seconds];
        let expected = Expected::rows(0..=usize::try_from(max_results).unwrap_or(0), 4);
        let listed = |row: &AnswerRow| {
            let (cell_xid, stale) = (row.xid8_or_null(2)?, row.boolean(4)?);
            Ok((OutstandingLease { lease: row.uuid(1)?, cell_xid, stale }, row.must(3)?.to_owned()))
        };
        self.ask(Question { text: LIST, values: &values, expected }, timeout, |answer| {
            let rows = each_once(answer.map(listed)?, |(listed, _)| listed.lease)?;
            let last_cursor = rows.last().map(|(_, cursor)| cursor.clone());
            // A page that ends where it began would be asked for again and again.
            if let Some(cursor) = last_cursor.as_ref().filter(|_| last_cursor == after) {
                return Err(Mismatch::Value(cursor.clone()));
            }
            Ok(LeasePage { leases: rows.into_iter().map(|(lease, _)| lease).collect(), last_cursor })
        })
    }

    /// Returns the leases of a cell that hold some of the buckets and are at most `max_age` seconds old. There may be any number of buckets.
    pub fn holders(
        &self,
        cell_id: i64,
        buckets: &[Value],
        max_age: f64,
        timeout: Duration,
    ) -> Result<Vec<OutstandingLease>, ClaimsError> {
        let portions: Vec<_> = buckets.chunks(PORTION).map(|portion| json!(portion).to_string()).collect();
        let values = [number(cell_id), number(MAX_LISTED), Some(format!("{max_age:.3}")), texts(&portions)];
        let lease = |row: &AnswerRow| {
            Ok(OutstandingLease { lease: row.uuid(1)?, cell_xid: row.xid8_or_null(2)?, stale: false })
        };
        let expected = Expected::rows(0..=MAX_LISTED.unsigned_abs() as usize, 2);
        self.ask(Question { text: HOLDERS, values: &values, expected }, timeout, |answer| {
            each_once(answer.map(lease)?, |listed| listed.lease)
        })
    }
}
