//! Statements on leases and their outcomes.

use uuid::Uuid;

use super::positions::{self, RowKey};
use crate::kernel::direct;
use crate::kernel::direct::layouts::{LEASES, OUTCOMES, lease};
use crate::kernel::tables::Local;
use crate::service::claims::leases::{EndedRow, LeaseEnding, existing, is_in_flight_in, pass_key};
use crate::service::claims::tables::{LeaseInUse, LeaseTables};
use pg::clock::Moment;
use pg::direct::{Changed, Reading, Row, RowLock};
use pg::index::KeyValue;
use pg::jsonb::Jsonb;
use pg::query::query;
use pg::spi::{Connection, View};

query! {
    /// Ends the cell's outstanding leases among these, and returns their claims. IS NOT DISTINCT FROM, here and elsewhere, keeps the planner
    /// from using an index on the cell.
    fn end_rows(leases: &[Uuid], cell_id: i64, outcome: &str, at: Moment) -> Vec<EndedRow> = [Statement]
        "WITH ended AS (DELETE FROM claims.claim_leases WHERE uuid = ANY (:leases) AND creator_id IS NOT DISTINCT FROM :cell_id
                        RETURNING uuid, creator_id, request_digest, payload, context, cell_role),
              outcome AS (INSERT INTO claims.lease_outcomes (lease_uuid, creator_id, outcome, request_digest, settled_at)
                          SELECT uuid, creator_id, :outcome, request_digest, :at FROM ended)
         SELECT uuid, payload -> 'create_records' AS creates, payload -> 'destroy_records' AS destroys, context, cell_role FROM ended";
    /// Locks those of the cell's leases that no other transaction has locked, in uuid order, and returns them.
    fn lock_rows(leases: &[Uuid], cell_id: i64) -> Vec<Uuid> = [Statement]
        "SELECT uuid FROM claims.claim_leases
          WHERE uuid = ANY (:leases) AND creator_id IS NOT DISTINCT FROM :cell_id ORDER BY uuid FOR UPDATE SKIP LOCKED";
    /// Fences a lease whose key was passed.
    fn put_fence(lease: Uuid, cell_id: i64) -> bool = [Statement]
        "WITH fenced AS (DELETE FROM claims.claim_leases WHERE uuid = :lease)
         INSERT INTO claims.lease_outcomes (lease_uuid, creator_id, outcome) VALUES (:lease, :cell_id, 'rolled_back')
         ON CONFLICT DO NOTHING";
    /// Deletes outcomes that were settled more than `retention` seconds ago, at most `most` of them, the oldest first.
    fn purge(retention: i64, most: i64) -> usize = [Statement]
        "DELETE FROM claims.lease_outcomes o
          USING (SELECT lease_uuid FROM claims.lease_outcomes
                  WHERE settled_at <= clock_timestamp() - make_interval(secs => :retention)
                  ORDER BY settled_at LIMIT :most FOR UPDATE SKIP LOCKED) AS old
          WHERE o.lease_uuid = old.lease_uuid";
}

/// The result of ending leases without statements.
#[derive(Default)]
struct EndedDirectly {
    ended: Vec<EndedRow>,
    /// Leases that another transaction has locked or changed.
    left: Vec<Uuid>,
    /// Leases of which this cell has no row in the snapshot.
    missing: Vec<Uuid>,
}

/// Ends leases without statements, and without waiting. Returns `None` if the tables are not as the extension has created them.
fn end_directly(leases: &[Uuid], ending: &LeaseEnding) -> Option<EndedDirectly> {
    direct::open([&LEASES, &OUTCOMES], |[table, outcomes]| {
        let mut all = EndedDirectly::default();
        table.look_up(Reading::Statement, |rows| {
            for uuid in leases {
                let is_of_cell = |row: &Row| row.get::<i64>(lease::CREATOR_ID) == Some(ending.cell_id);
                let written_at = positions::take(RowKey::Lease(*uuid));
                let Some(row) = rows.find_from(written_at, key_of(*uuid), is_of_cell) else {
                    all.missing.push(*uuid);
                    continue;
                };
                let payload: Option<Jsonb> = row.get(lease::PAYLOAD);
                let list = |key| payload.as_ref().and_then(|payload| payload.container(key));
                let (context, cell_role) = (row.get(lease::CONTEXT), row.get(lease::CELL_ROLE));
                let outcome = [
                    (*uuid).into(),
                    ending.cell_id.into(),
                    ending.ending.outcome().into(),
                    row.get::<Vec<u8>>(lease::REQUEST_DIGEST).as_deref().into(),
                    ending.at.into(),
                ];
                let mut deleted = table.delete_if_free(&row);
                // The caller may have locked it before.
                if deleted == Changed::Busy && table.lock(&row, RowLock::Update) == Changed::Done {
                    deleted = table.delete(&row);
                }
                if deleted != Changed::Done {
                    all.left.push(*uuid);
                    continue;
                }
                outcomes.insert(&outcome);
                all.ended.push(EndedRow {
                    uuid: *uuid,
                    creates: list("create_records"),
                    destroys: list("destroy_records"),
                    context,
                    cell_role,
                });
            }
        });
        all
    })
}

/// Locks those of the cell's leases that no other transaction has locked, in uuid order, without statements. Returns them, and those for which
/// a statement is needed: another transaction has changed them since the snapshot, or the table is not as the extension has created it.
fn lock_directly(leases: &[Uuid], cell_id: i64) -> (Vec<Uuid>, Vec<Uuid>) {
    let mut sorted = leases.to_vec();
    sorted.sort_unstable();
    let locked = direct::open([&LEASES], |[table]| {
        table.look_up(Reading::Statement, |rows| {
            let (mut free, mut others) = (Vec::new(), Vec::new());
            for uuid in &sorted {
                let is_of_cell = |row: &Row| row.get::<i64>(lease::CREATOR_ID) == Some(cell_id);
                let row = rows.find(key_of(*uuid), is_of_cell);
                match row.map(|row| table.lock(&row, RowLock::Update)) {
                    None | Some(Changed::Busy) => {}
                    Some(Changed::Done) => free.push(*uuid),
                    Some(Changed::Since | Changed::ByUs) => others.push(*uuid),
                }
            }
            (free, others)
        })
    });
    locked.unwrap_or_else(|| (Vec::new(), sorted))
}

/// Returns the key of a lease, or of its outcome.
fn key_of(lease: Uuid) -> [KeyValue<'static>; 1] {
    [KeyValue::Uuid(lease)]
}

/// Refuses leases that another transaction is beginning or changing, unless the call may wait for it.
fn refuse_in_flight(leases: &[Uuid], ending: &LeaseEnding) -> Result<(), LeaseInUse> {
    let is_in_flight = |lease: &Uuid| is_in_flight_in(c"claim_leases", *lease);
    if !ending.may_wait && leases.iter().any(is_in_flight) { Err(LeaseInUse) } else { Ok(()) }
}

fn end_by_statement(
    connection: &Connection,
    leases: &[Uuid],
    ending: &LeaseEnding,
) -> Result<Vec<EndedRow>, LeaseInUse> {
    refuse_in_flight(leases, ending)?;
    Ok(end_rows(connection, leases, ending.cell_id, ending.ending.outcome(), ending.at))
}

impl LeaseTables for Local {
    fn end(&self, connection: &Connection, leases: &[Uuid], ending: &LeaseEnding) -> Result<Vec<EndedRow>, LeaseInUse> {
        let Some(EndedDirectly { mut ended, left, missing }) = end_directly(leases, ending) else {
            return end_by_statement(connection, leases, ending);
        };
        refuse_in_flight(&missing, ending)?;
        if !left.is_empty() {
            ended.extend(end_by_statement(connection, &left, ending)?);
        }
        Ok(ended)
    }

    fn lock_free(&self, connection: &Connection, leases: &[Uuid], cell_id: i64) -> Vec<Uuid> {
        let (mut free, others) = lock_directly(leases, cell_id);
        if !others.is_empty() {
            free.extend(lock_rows(connection, &others, cell_id));
        }
        free
    }

    /// Looks the key up without a statement, because every begin with a client's uuid asks this.
    fn has_outcome(&self, connection: &Connection, lease: Uuid) -> bool {
        let is_there = direct::open([&OUTCOMES], |[outcomes]| {
            outcomes.look_up(Reading::Latest, |rows| rows.find(key_of(lease), |_| true).is_some())
        });
        is_there
            .unwrap_or_else(|| existing(connection, &[lease], View::Latest).iter().any(|lease| lease.outcome.is_some()))
    }

    fn fence(&self, connection: &Connection, lease: Uuid, cell_id: i64) -> bool {
        pass_key(connection, lease, cell_id) && put_fence(connection, lease, cell_id)
    }

    fn purge_outcomes(&self, connection: &Connection, retention: i64, limit: i64) -> usize {
        purge(connection, retention, limit)
    }
}
