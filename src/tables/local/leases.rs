//! Statements on leases and their outcomes.

use uuid::Uuid;

use super::door::Local;
use super::positions::{self, Key};
use crate::direct;
use crate::direct::layouts::{LEASES, OUTCOMES, lease};
use crate::tables::door::{LeaseInUse, LeaseTables};
use crate::tables::rows::leases::{EndedRow, LeaseEnding};
use crate::tables::shared::leases::{existing, is_in_flight_in, pass_key};
use pg::direct::{Changed, Reading, Row, RowLock};
use pg::index::KeyValue;
use pg::jsonb::Jsonb;
use pg::spi::{Connection, View};
use pg::statement::statement;
use pg::uuid::{from_pg_uuid, pg_uuid, pg_uuids};

statement! {
    /// Ends the cell's outstanding leases among $1 at $4 with outcome $3, and returns their claims. IS NOT DISTINCT FROM, here
    /// and elsewhere, keeps the planner from using an index on the cell.
    END(UUIDARRAYOID, INT8OID, TEXTOID, TIMESTAMPTZOID) =
        "WITH ended AS (DELETE FROM claims.claim_leases WHERE uuid = ANY ($1) AND creator_id IS NOT DISTINCT FROM $2
                        RETURNING uuid, creator_id, request_digest, payload),
              outcome AS (INSERT INTO claims.lease_outcomes (lease_uuid, creator_id, outcome, request_digest, settled_at)
                          SELECT uuid, creator_id, $3, request_digest, $4 FROM ended)
         SELECT uuid, payload -> 'create_records', payload -> 'destroy_records' FROM ended";
    /// Locks those of the leases $1 of cell $2 that no other transaction has locked, in uuid order, and returns them.
    LOCK_FREE(UUIDARRAYOID, INT8OID) =
        "SELECT uuid FROM claims.claim_leases
          WHERE uuid = ANY ($1) AND creator_id IS NOT DISTINCT FROM $2 ORDER BY uuid FOR UPDATE SKIP LOCKED";
    /// Fences a lease whose key PASS_KEY has inserted.
    FENCE(UUIDOID, INT8OID) =
        "WITH fenced AS (DELETE FROM claims.claim_leases WHERE uuid = $1)
         INSERT INTO claims.lease_outcomes (lease_uuid, creator_id, outcome) VALUES ($1, $2, 'rolled_back')
         ON CONFLICT DO NOTHING";
    /// Deletes outcomes that were settled more than $1 seconds ago, at most $2 of them, the oldest first.
    PURGE(INT8OID, INT8OID) =
        "DELETE FROM claims.lease_outcomes o
          USING (SELECT lease_uuid FROM claims.lease_outcomes
                  WHERE settled_at <= clock_timestamp() - make_interval(secs => $1)
                  ORDER BY settled_at LIMIT $2 FOR UPDATE SKIP LOCKED) AS old
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
                let written_at = positions::take(Key::Lease(*uuid));
                let Some(row) = rows.find_from(written_at, key_of(*uuid), is_of_cell) else {
                    all.missing.push(*uuid);
                    continue;
                };
                if table.lock(&row, RowLock::Update) != Changed::Done {
                    all.left.push(*uuid);
                    continue;
                }
                let payload: Option<Jsonb> = row.get(lease::PAYLOAD);
                let list = |key| payload.as_ref().and_then(|payload| payload.field(key));
                let outcome = [
                    pg_uuid(*uuid).into(),
                    ending.cell_id.into(),
                    ending.ending.outcome().into(),
                    row.get::<Vec<u8>>(lease::REQUEST_DIGEST).as_deref().into(),
                    ending.at.into(),
                ];
                if table.delete(&row) != Changed::Done {
                    all.left.push(*uuid);
                    continue;
                }
                outcomes.insert(&outcome);
                all.ended.push(EndedRow {
                    uuid: *uuid,
                    creates: list("create_records"),
                    destroys: list("destroy_records"),
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
    [KeyValue::Uuid(pg_uuid(lease))]
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
    let outcome = ending.ending.outcome();
    let values = [pg_uuids(leases.iter().copied()), ending.cell_id.into(), outcome.into(), ending.at.into()];
    let rows = connection.run(&END, View::Statement, values);
    Ok(rows.map(|row| EndedRow { uuid: from_pg_uuid(row.must(1)), creates: row.get(2), destroys: row.get(3) }))
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
            let values = [pg_uuids(others), cell_id.into()];
            let locked = connection.run(&LOCK_FREE, View::Statement, values);
            free.extend(locked.map(|row| from_pg_uuid(row.must(1))));
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
        pass_key(connection, lease, cell_id)
            && connection.run(&FENCE, View::Statement, [pg_uuid(lease).into(), cell_id.into()]).count() == 1
    }

    fn purge_outcomes(&self, connection: &Connection, retention: i64, limit: i64) -> usize {
        connection.run(&PURGE, View::Statement, [retention.into(), limit.into()]).count()
    }
}
