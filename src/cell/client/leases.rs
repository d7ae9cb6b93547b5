//! Calls about leases.

use std::ffi::CStr;
use std::time::Duration;

use pgrx::datum::Interval;
use pgrx::pg_sys::{self, Oid};
use uuid::Uuid;

use super::answer::AnswerRow;
use super::confirmed::Settlement;
use super::naming::RequiredNaming;
use super::parameters::{interval, number, text, uuid, uuids};
use super::{Service, command, frequent_command};
use crate::error::ClaimsError;
use crate::pg::libpq::Command;
use crate::pg::xid8::Xid8;

/// What is required is looked at before what is asked for. And which process has answered, for the connection to know whether it is
/// always the same one.
const BEGIN: &str = "SELECT claims.begin_update_text($1, $2, $3, $4, $5), pg_catalog.pg_backend_pid()
            WHERE (claims.require_naming($6, $7, $8) IS NULL) IS NOT NULL";
/// The call whose answer ends with the process that has given it.
pub(super) const TELLS_PROCESS: &CStr = c"claims_begin";
const BEGIN_TYPES: [Oid; 8] = [
    pg_sys::INT8OID,
    pg_sys::TEXTOID,
    pg_sys::TEXTOID,
    pg_sys::UUIDOID,
    pg_sys::XID8OID,
    pg_sys::TEXTOID,
    pg_sys::TEXTARRAYOID,
    pg_sys::TEXTARRAYOID,
];
const COMMIT: &str = "SELECT claims.commit_update($1, $2)";
const COMMIT_UNFLUSHED: &str = "SELECT claims.commit_unflushed($1, $2)";
const ROLLBACK: &str = "SELECT claims.rollback_update($1, $2)";
const LEASE_TYPES: [Oid; 2] = [pg_sys::INT8OID, pg_sys::UUIDOID];
/// One lease, and whether it is older than recovery lets leases be of which it knows nothing. One that is dated in the future is of an
/// unknown age: its clock has jumped.
const ONE: &str = "SELECT d.lease_uuid, d.cell_xid, d.created_at OPERATOR(pg_catalog.<=)
                  (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) '10 minutes'::pg_catalog.interval)
                  OR d.created_at OPERATOR(pg_catalog.>) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) '11 minutes'::pg_catalog.interval)
             FROM claims.lease_details($1::pg_catalog.uuid) AS d";
const OUTCOMES: &str = "SELECT lease, claims.lease_outcome($1::pg_catalog.int8, lease)
             FROM pg_catalog.unnest($2::pg_catalog.uuid[]) AS lease";
const SETTLE: &str = "SELECT lease_uuid, outcome, settled
             FROM claims.settle_leases($1::pg_catalog.int8, $2::pg_catalog.uuid[], $3::pg_catalog.uuid[])";
/// How old leases are is said by the clock that made them, the service's. Whoever is dated as far ahead, and a minute more, counts as
/// old: nobody knows how old it is, and to fence it first is safe.
const LIST: &str = "SELECT lease_uuid, cell_xid, \"cursor\",
                  created_at OPERATOR(pg_catalog.<=) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-)
                      pg_catalog.make_interval(months => $4::pg_catalog.int4, days => $5::pg_catalog.int4, secs => $6::pg_catalog.float8))
                  OR created_at OPERATOR(pg_catalog.>) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) '1 minute'::pg_catalog.interval OPERATOR(pg_catalog.+)
                      pg_catalog.make_interval(months => $4::pg_catalog.int4, days => $5::pg_catalog.int4, secs => $6::pg_catalog.float8))
             FROM claims.list_leases($1::pg_catalog.int8, $2::pg_catalog.text, $3::pg_catalog.int4)";
/// The leases that hold buckets. They are asked for by age: the list is long where recovery has not run for a while.
const HOLDERS: &str = "SELECT l.lease_uuid, l.cell_xid
             FROM claims.list_leases($1::pg_catalog.int8, NULL, $2::pg_catalog.int4, pg_catalog.clock_timestamp()
                      OPERATOR(pg_catalog.-) pg_catalog.make_interval(secs => $3::pg_catalog.float8)) AS l
            WHERE l.lease_uuid OPERATOR(pg_catalog.=) ANY (SELECT r.lease_uuid FROM claims.get_records($4::pg_catalog.jsonb) AS r)";

/// Leases that are looked through for those that hold a bucket; the service lists no more in one call.
const MAX_LISTED: i64 = 10_000;

/// What a begin asks for.
pub struct BeginRequest {
    pub cell_id: i64,
    pub lease: Uuid,
    /// Lists of records, as JSON.
    pub creates: String,
    pub destroys: String,
    /// The local transaction.
    pub cell_xid: Xid8,
    pub naming: RequiredNaming,
}

/// A lease that is outstanding.
pub struct OutstandingLease {
    pub lease: Uuid,
    pub cell_xid: Option<Xid8>,
    /// Older than was asked.
    pub stale: bool,
}

/// A page of outstanding leases.
pub struct LeasePage {
    pub leases: Vec<OutstandingLease>,
    /// Where the next page begins.
    pub last_cursor: Option<String>,
}

/// What the service says of a lease that it was asked to settle.
pub struct Settled {
    pub lease: Uuid,
    pub outcome: Option<String>,
    pub by_this_call: bool,
}

/// The call that ends leases, for those who send it without waiting for its answer.
pub(super) fn settlement(cell_id: i64, Settlement { commits, rollbacks, is_unflushed }: &Settlement) -> Command {
    match (commits.as_slice(), rollbacks.as_slice()) {
        ([lease], []) if *is_unflushed => {
            let values = [number(cell_id), uuid(*lease)];
            frequent_command(c"claims_commit_unflushed", COMMIT_UNFLUSHED, &LEASE_TYPES, &values)
        }
        ([lease], []) => frequent_command(c"claims_commit", COMMIT, &LEASE_TYPES, &[number(cell_id), uuid(*lease)]),
        ([], [lease]) => frequent_command(c"claims_rollback", ROLLBACK, &LEASE_TYPES, &[number(cell_id), uuid(*lease)]),
        _ => command(SETTLE, &[number(cell_id), uuids(commits), uuids(rollbacks)]),
    }
}

impl Service<'_> {
    pub fn begin(&self, request: &BeginRequest, timeout: Duration) -> Result<(), ClaimsError> {
        let BeginRequest { cell_id, lease, creates, destroys, cell_xid, naming } = request;
        let [unicode, bucket_types, profiles] = naming.values();
        let cell_xid = Some(cell_xid.0.to_string());
        let (cell_id, creates, destroys) = (number(*cell_id), text(creates), text(destroys));
        let values = [cell_id, creates, destroys, uuid(*lease), cell_xid, unicode, bucket_types, profiles];
        self.run(&[frequent_command(TELLS_PROCESS, BEGIN, &BEGIN_TYPES, &values)], timeout).map(|_| ())
    }

    /// `true`: this call has committed it; `false`: it had been committed before.
    pub fn commit(&self, cell_id: i64, lease: Uuid, timeout: Duration) -> Result<bool, ClaimsError> {
        let command = frequent_command(c"claims_commit", COMMIT, &LEASE_TYPES, &[number(cell_id), uuid(lease)]);
        let by_this_call = self.run(&[command], timeout)?.first(|row| Ok(row.is_true(1)))?;
        Ok(by_this_call == Some(true))
    }

    /// How leases ended; `None`: unknown.
    pub fn lease_outcomes(
        &self,
        cell_id: i64,
        leases: &[Uuid],
        timeout: Duration,
    ) -> Result<Vec<(Uuid, Option<String>)>, ClaimsError> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let outcome = |row: &AnswerRow| Ok((row.uuid(1)?, row.text(2).map(str::to_owned)));
        self.call(OUTCOMES, &[number(cell_id), uuids(leases)], timeout)?.map(outcome)
    }

    /// A lease, while it is outstanding.
    pub fn outstanding(&self, lease: Uuid, timeout: Duration) -> Result<Option<OutstandingLease>, ClaimsError> {
        self.call(ONE, &[uuid(lease)], timeout)?.first(|row| {
            Ok(OutstandingLease { lease: row.uuid(1)?, cell_xid: row.xid8_or_null(2)?, stale: row.is_true(3) })
        })
    }

    pub fn settle_leases(
        &self,
        cell_id: i64,
        commits: &[Uuid],
        rollbacks: &[Uuid],
        timeout: Duration,
    ) -> Result<Vec<Settled>, ClaimsError> {
        self.call(SETTLE, &[number(cell_id), uuids(commits), uuids(rollbacks)], timeout)?.map(|row| {
            Ok(Settled { lease: row.uuid(1)?, outcome: row.text(2).map(str::to_owned), by_this_call: row.is_true(3) })
        })
    }

    /// A page of a cell's outstanding leases.
    pub fn list_leases(
        &self,
        cell_id: i64,
        after: Option<String>,
        max_results: i64,
        stale_after: Interval,
        timeout: Duration,
    ) -> Result<LeasePage, ClaimsError> {
        let [months, days, seconds] = interval(stale_after);
        let values = [number(cell_id), after, number(max_results), months, days, seconds];
        let rows = self.call(LIST, &values, timeout)?.map(|row| {
            let lease = OutstandingLease { lease: row.uuid(1)?, cell_xid: row.xid8_or_null(2)?, stale: row.is_true(4) };
            Ok((lease, row.text(3).map(str::to_owned)))
        })?;
        let last_cursor = rows.last().and_then(|(_, cursor)| cursor.clone());
        Ok(LeasePage { leases: rows.into_iter().map(|(lease, _)| lease).collect(), last_cursor })
    }

    /// The leases of a cell that hold some of the buckets, a JSON list, as far as they are no older than so many seconds.
    pub fn holders(
        &self,
        cell_id: i64,
        buckets: &str,
        max_age: f64,
        timeout: Duration,
    ) -> Result<Vec<OutstandingLease>, ClaimsError> {
        let values = [number(cell_id), number(MAX_LISTED), Some(format!("{max_age:.3}")), text(buckets)];
        let lease = |row: &AnswerRow| {
            Ok(OutstandingLease { lease: row.uuid(1)?, cell_xid: row.xid8_or_null(2)?, stale: false })
        };
        self.call(HOLDERS, &values, timeout)?.map(lease)
    }
}
