//! Calls about leases.

use std::time::Duration;

use claims_model::attribution::Attribution;
use claims_model::outgoing::RefusedBucket;
use pgrx::datum::Interval;
use serde_json::json;
use uuid::Uuid;

use super::Service;
use super::answer::{Answer, each_asked, each_once, one_of, wrong};
use super::call::ServiceCall;
use super::naming::RequiredNaming;
use super::presented::Presented;
use super::question::{interval, question};
use super::settlement::{OUTCOME_NAMES, Settled, Settlement};
use crate::kernel::error::ClaimsError;
use crate::kernel::settings;
use pg::libpq::{Command, Mismatch};
use pg::xid8::Xid8;

/// Maximum number of leases that are searched for those that hold a bucket. The service lists no more in one call.
const MAX_LISTED: i32 = 10_000;
/// Number of buckets of one get_records(). The service takes 10,000 in a call and answers with at most 16 MiB: 500 of the largest
/// records fit.
const PORTION: usize = 500;

pub struct BeginRequest {
    pub lease: Uuid,
    /// A JSON list of records.
    pub creates: String,
    pub destroys: String,
    /// The id of the local transaction.
    pub cell_xid: Xid8,
    pub naming: RequiredNaming,
    pub wait: Option<HandedWait>,
    pub attribution: Attribution,
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
    /// Returns the call that begins the lease, without a wait for names, and presents an epoch. WHERE checks the required naming before the
    /// lease begins. The second column is the process that has answered, by which the connection knows whether it is always the same one.
    fn command(&self, cell_id: i64, presented: Presented) -> Command {
        let BeginRequest { lease, creates, destroys, cell_xid, naming, attribution, .. } = self;
        let begin = question! {
            prepared c"claims_begin":
            "SELECT claims.begin_update_text(claims.acting_cell({cell_id}, {presented}), {creates}, {destroys}, {lease}, {cell_xid},
                                            false, {context}, {cell_role}),
                    pg_catalog.pg_backend_pid()
              WHERE (claims.require_naming({naming}) IS NULL) IS NOT NULL",
            cell_id, creates = creates.as_str(), destroys = destroys.as_str(), lease = *lease,
            cell_xid = *cell_xid, naming = *naming, presented, context = attribution.context.as_deref(),
            cell_role = attribution.cell_role.as_deref()
        };
        begin.command::<BeginAnswer>(1..=1)
    }

    fn begun(&self, answer: Answer) -> Result<(), Mismatch> {
        let (begun, _process): BeginAnswer = answer.only()?;
        if begun == self.lease { Ok(()) } else { Err(wrong(begun)) }
    }
}

/// The lease that has begun, and the process that has answered.
type BeginAnswer = (Uuid, i64);

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
    let presented: Vec<_> = requests.iter().map(|(service, ..)| service.first_presented()).collect();
    let command = |((service, request, _), presented): (&(&Service, &BeginRequest, _), &_)| {
        request.command(service.cell_id, *presented)
    };
    let commands: Vec<_> = requests.iter().zip(&presented).map(command).collect();
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|at| requests[*at].0.oid().to_u32());
    let mut calls: Vec<(usize, ServiceCall)> = Vec::new();
    let prepare_all = || {
        // The session waits for a place without having a turn anywhere. It has connections to services with smaller oids only.
        for at in order {
            let (service, _, limit) = requests[at];
            let mut call =
                ServiceCall::prepare(service, std::slice::from_ref(&commands[at]), service.time_left(limit))?;
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
            let begin = request.command(self.cell_id, presented);
            let left = self.time_left(limit);
            let read = |answer: Answer| request.begun(answer);
            let Some(HandedWait { time, priority }) = request.wait else { return self.run(&[begin], left, read) };
            // Hands the session's wait for names to the service, for the next statement.
            let wait = question! {
                "SELECT pg_catalog.set_config('claims.lease_wait', {time}, true),
                        pg_catalog.set_config('claims.lease_priority', {priority}, true)",
                time = time.as_millis().to_string(), priority = priority.to_string()
            };
            let wait = wait.command::<(String, String)>(1..=1);
            self.run_waiting(time, &[wait, begin], left, read)
        };
        self.presenting(limit, begin).map(|(presented, ())| presented)
    }

    /// Returns the largest number of records that a batch may have, at least 1.
    pub fn batch_limit(&self, timeout: Duration) -> Result<usize, ClaimsError> {
        let limit = question! { "SELECT claims.batch_limit({cell_id})", cell_id = self.cell_id };
        self.ask_one(limit, timeout, |(limit,): (i64,)| {
            usize::try_from(limit).ok().filter(|limit| *limit > 0).ok_or_else(|| wrong(limit))
        })
    }

    /// Commits a lease. Returns `false` if it had been committed before.
    pub fn commit(&self, lease: Uuid, timeout: Duration) -> Result<bool, ClaimsError> {
        let settlement = Settlement { commits: vec![lease], ..Settlement::default() };
        let commit = |presented| {
            let read = |answer: Answer| answer.only().map(|(is_new,): (bool,)| is_new);
            self.run(&[settlement.command(self.cell_id, presented)], timeout, read)
        };
        self.presenting(timeout, commit).map(|(_, is_new)| is_new)
    }

    /// Returns the outcomes of leases; `None` for an unknown lease.
    pub fn lease_outcomes(
        &self,
        leases: &[Uuid],
        timeout: Duration,
    ) -> Result<Vec<(Uuid, Option<String>)>, ClaimsError> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let outcomes = question! {
            "SELECT lease, claims.lease_outcome({cell_id}, lease) FROM pg_catalog.unnest({leases}) AS lease",
            cell_id = self.cell_id, leases
        };
        self.ask(outcomes, leases.len()..=leases.len(), timeout, |rows: Vec<(Uuid, Option<String>)>| {
            for (_, outcome) in &rows {
                one_of(outcome.as_deref(), &OUTCOME_NAMES)?;
            }
            each_asked(leases, rows, |(lease, _)| *lease)
        })
    }

    /// Returns a lease if it is outstanding, and whether recovery may treat it as stale. A lease dated in the future is stale: the clock has
    /// jumped, so its age is unknown.
    pub fn outstanding(&self, lease: Uuid, timeout: Duration) -> Result<Option<OutstandingLease>, ClaimsError> {
        let outstanding = question! {
            "SELECT d.lease_uuid, d.cell_xid, d.created_at OPERATOR(pg_catalog.<=)
                      (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) pg_catalog.make_interval(secs => {stale_after}))
                      OR d.created_at OPERATOR(pg_catalog.>) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) '1 minute'::pg_catalog.interval
                          OPERATOR(pg_catalog.+) pg_catalog.make_interval(secs => {stale_after}))
               FROM claims.lease_details({lease}) AS d",
            lease, stale_after = settings::stale_after().as_secs_f64()
        };
        let found = self.ask_rows(outstanding, 0..=1, timeout, |(found, cell_xid, stale)| match found {
            other if other != lease => Err(wrong(other)),
            lease => Ok(OutstandingLease { lease, cell_xid, stale }),
        });
        Ok(found?.pop())
    }

    /// Settles leases, and presents an epoch, unless a pass has presented it before.
    pub fn settle_leases(
        &self,
        presented: Option<Presented>,
        (commits, rollbacks): (&[Uuid], &[Uuid]),
        timeout: Duration,
    ) -> Result<Vec<Settled>, ClaimsError> {
        let settlement = Settlement::of(commits, rollbacks);
        self.run(&[settlement.listed(self.cell_id, presented)], timeout, |answer| settlement.each_settled(answer))
    }

    /// Like [`Service::settle_leases`], with the epoch that is committed here. Call it in a transaction.
    pub fn settle_own_leases(
        &self,
        leases: (&[Uuid], &[Uuid]),
        timeout: Duration,
    ) -> Result<Vec<Settled>, ClaimsError> {
        let settle = |presented| self.settle_leases(Some(presented), leases, self.time_left(timeout));
        self.presenting(timeout, settle).map(|(_, settled)| settled)
    }

    /// Returns a page of a cell's outstanding leases. The service's clock, which dated the leases, says how old they are. A lease dated as far
    /// in the future, and one minute more, counts as stale: its age is unknown, and fencing it first is safe.
    pub fn list_leases(
        &self,
        after: Option<String>,
        max_results: i64,
        stale_after: Interval,
        timeout: Duration,
    ) -> Result<LeasePage, ClaimsError> {
        let (months, days, seconds) = interval(stale_after);
        let list = question! {
            "SELECT lease_uuid, cell_xid, \"cursor\",
                    created_at OPERATOR(pg_catalog.<=) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-)
                        pg_catalog.make_interval(months => {months}, days => {days}, secs => {seconds}))
                    OR created_at OPERATOR(pg_catalog.>) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) '1 minute'::pg_catalog.interval
                        OPERATOR(pg_catalog.+) pg_catalog.make_interval(months => {months}, days => {days}, secs => {seconds}))
               FROM claims.list_leases({cell_id}, {after}, {max_results})",
            cell_id = self.cell_id, after, max_results = i32::try_from(max_results).unwrap_or(i32::MAX), months, days, seconds
        };
        let most = usize::try_from(max_results).unwrap_or(0);
        self.ask(list, 0..=most, timeout, |rows: Vec<(Uuid, Option<Xid8>, String, bool)>| {
            let rows = each_once(rows, |(lease, ..)| *lease)?;
            let last_cursor = rows.last().map(|(_, _, cursor, _)| cursor.clone());
            // A page that ends where it began would be asked for again and again.
            if let Some(cursor) = last_cursor.as_ref().filter(|_| last_cursor == after) {
                return Err(wrong(cursor));
            }
            let lease = |(lease, cell_xid, _, stale)| OutstandingLease { lease, cell_xid, stale };
            Ok(LeasePage { leases: rows.into_iter().map(lease).collect(), last_cursor })
        })
    }

    /// Returns the leases of a cell that hold some of the buckets and are at most `max_age` seconds old. There may be any number of buckets.
    pub fn holders(
        &self,
        buckets: &[RefusedBucket],
        max_age: f64,
        timeout: Duration,
    ) -> Result<Vec<OutstandingLease>, ClaimsError> {
        // The list is long if recovery has not run for a while.
        let holders = question! {
            "SELECT l.lease_uuid, l.cell_xid
               FROM claims.list_leases({cell_id}, NULL, {most}, pg_catalog.clock_timestamp()
                        OPERATOR(pg_catalog.-) pg_catalog.make_interval(secs => {max_age})) AS l
              WHERE l.lease_uuid OPERATOR(pg_catalog.=) ANY (SELECT r.lease_uuid
                        FROM pg_catalog.unnest({portions}) AS portion
                       CROSS JOIN LATERAL claims.get_records(portion::pg_catalog.jsonb) AS r)",
            cell_id = self.cell_id, most = MAX_LISTED, max_age,
            portions = buckets.chunks(PORTION).map(|portion| json!(portion).to_string()).collect::<Vec<_>>()
        };
        self.ask(holders, 0..=MAX_LISTED.unsigned_abs() as usize, timeout, |rows: Vec<(Uuid, Option<Xid8>)>| {
            let rows = each_once(rows, |(lease, _)| *lease)?.into_iter();
            Ok(rows.map(|(lease, cell_xid)| OutstandingLease { lease, cell_xid, stale: false }).collect())
        })
    }
}
