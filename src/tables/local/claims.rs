//! Statements that take claims, settle them, and find the claims on buckets.

use std::collections::{HashMap, HashSet};

use claims_model::{Bucket, Claim, Destroy, Reference};
use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use super::claim_rows::{EXTENSION_LOCK_TIMEOUT_MS, is_owned, key_of, new_row, replacement};
use super::door::Local;
use super::now;
use super::positions::{self, Key};
use crate::direct;
use crate::direct::layouts::{CLAIMS, LEASES, claim};
use crate::tables::door::{ClaimTables, KeyExists, Locks, RowsToInsert};
use crate::tables::rows::buckets::{claim_arrays, displayed_values, displays, values_by_type};
use crate::tables::rows::claims::{ACTIVE, EndedLeases, FoundClaim, HeldFor};
use crate::tables::rows::leases::NewLease;
use crate::tables::shared::claims as shared;
use pg::clock::Moment;
use pg::direct::{Changed, Conflict, Position, Reading, Row as StoredRow, RowLock, Table};
use pg::settings::LockWaits;
use pg::spi::{Connection, Row, Value, View};
use pg::statement::statement;
use pg::uuid::{from_pg_uuid, pg_uuid};
use pg::xact::Surroundings;

// Where a table is as the extension has created it, claims are written without statements. These insert and replace rows in all other cases.
statement! {
    /// Adds ACTIVE claims whose buckets are free, for cell $8 at time $9, in the order of the arrays. Returns their buckets.
    ADD_NEW(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT8OID, TIMESTAMPTZOID,
            TEXTARRAYOID) =
        "INSERT INTO claims.claims (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id,
                                    creator_id, status, created_at, updated_at, display_value)
         SELECT unnest($1), unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7), $8, 1::smallint, $9, $9, unnest($10)
             ON CONFLICT (bucket_value, bucket_type) DO NOTHING RETURNING bucket_type, bucket_value";
    ADD(UUIDOID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT4OID, TEXTOID, TEXTOID, INT8OID, TIMESTAMPTZOID) =
        concat!(insert_into!("claims"), "VALUES ($1, $2, $3, $4, $5, $6, $7, $9, NULL, 1, $10, $10, $8)");
    LEASE(UUIDOID, INT8OID, TIMESTAMPTZOID, JSONBOID, BYTEAOID, XID8OID) = insert_lease!();
    /// A claim under a lease that exists.
    CREATE(UUIDOID, INT8OID, TIMESTAMPTZOID, UUIDOID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT4OID, TEXTOID, TEXTOID) = create_claim!();
    /// Returns the claims on buckets. It takes no locks: a claim that is only reported must not be locked.
    STANDING(INT4OID, TEXTARRAYOID) =
        concat!(
        "SELECT c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id, ", claim_cell!(), ", c.status = 1,
                CASE WHEN c.status = 4 THEN (SELECT t.created_at FROM claims.cell_transfers t WHERE t.transfer_uuid = c.lease_uuid)
                     ELSE (SELECT l.created_at FROM claims.claim_leases l WHERE l.uuid = c.lease_uuid) END, ", other_cell!(), "
           FROM claims.claims c
          WHERE c.bucket_value = ANY ($2) AND c.bucket_type = $1");
    REPLACE(UUIDOID, TIMESTAMPTZOID, UUIDOID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT4OID, TEXTOID, TEXTOID) = replace_claim!();
}

/// Inserts the lease and its creates, in bucket order. Returns the number of claims. An existing bucket is a unique violation. A row that
/// another transaction has locked runs into `lock_timeout`.
fn put_lease(connection: &Connection, lease: &NewLease, creates: &[&Claim]) -> usize {
    connection.run(&LEASE, View::Statement, lease.values());
    creates.iter().map(|claim| put_claim(connection, lease, claim)).sum()
}

fn put_claim(connection: &Connection, lease: &NewLease, claim: &Claim) -> usize {
    connection.run(&CREATE, View::Statement, lease.key_values().into_iter().chain(displayed_values(claim))).count()
}

/// Replaces a claim of a lease in place. Returns the number of claims.
fn replace_by_statement(connection: &Connection, (lease, claim): (Uuid, &Claim), at: Moment) -> usize {
    let key: [Value; 2] = [pg_uuid(lease).into(), at.into()];
    connection.run(&REPLACE, View::Statement, key.into_iter().chain(displayed_values(claim))).count()
}

impl ClaimTables for Local {
    fn standing(&self, connection: &Connection, buckets: &[&Bucket]) -> HashMap<Bucket<'static>, FoundClaim> {
        let of_type = |(bucket_type, values): (i32, Vec<&str>)| {
            connection.run(&STANDING, View::Latest, [bucket_type.into(), values.into()]).map(|row| {
                let (bucket, subject, source) = claim_of(bucket_type, &row);
                let (holder_cell_id, active, lease_made_at) = (row.must(6), row.must(7), row.get(8));
                (
                    bucket,
                    FoundClaim { holder_cell_id, active, subject, source, lease_made_at, other_cell_id: row.get(9) },
                )
            })
        };
        values_by_type(buckets.iter().copied()).into_iter().flat_map(of_type).collect()
    }

    fn replace(&self, connection: &Connection, all: &EndedLeases, claims: &[(Uuid, &Claim)]) -> usize {
        let buckets: Vec<&Bucket> = claims.iter().map(|(_, claim)| &claim.bucket).collect();
        let (replaced, others) = change_held(all, HeldFor::Destroying, &buckets, |table, row, at| {
            table.update(row, &replacement(claims[at].1, all.at))
        });
        let others = at_positions(claims, &others).into_iter();
        replaced + others.map(|claim| replace_by_statement(connection, claim, all.at)).sum::<usize>()
    }

    fn take(
        &self,
        connection: &Connection,
        lease: &NewLease,
        rows: RowsToInsert,
        _: Surroundings,
    ) -> Result<usize, KeyExists> {
        Ok(match rows {
            RowsToInsert::Batch(creates) => match put_directly(lease, creates) {
                Some(put) => put?,
                None => put_lease(connection, lease, creates),
            },
            RowsToInsert::Lease => put_lease(connection, lease, &[]),
            RowsToInsert::Claim(claim) => put_claim(connection, lease, claim),
        })
    }

    fn add_new(
        &self,
        connection: &Connection,
        cell_id: i64,
        claims: &[&Claim],
        _: Surroundings,
    ) -> HashSet<Bucket<'static>> {
        let values = claim_arrays(claims).into_iter().chain([cell_id.into(), Moment::now().into(), displays(claims)]);
        let added = connection.run(&ADD_NEW, View::Statement, values);
        added.map(|row| Bucket { bucket_type: row.must(1), value: row.must::<String>(2).into() }).into_iter().collect()
    }

    fn add(&self, connection: &Connection, cell_id: i64, claims: &[&Claim], _: Surroundings) -> usize {
        let add = |claim: &&Claim| {
            let values = displayed_values(claim).chain([cell_id.into(), Moment::now().into()]);
            connection.run(&ADD, View::Statement, values).count()
        };
        claims.iter().map(add).sum()
    }

    fn create_now(&self, cell_id: i64, at: Moment, claim: &Claim) -> bool {
        now::create(cell_id, at, claim)
    }

    fn change_now(
        &self,
        cell_id: i64,
        at: Moment,
        creates: &[&Claim],
        changes: &[(&Destroy, Option<&Claim>)],
    ) -> Option<Result<usize, KeyExists>> {
        now::change(cell_id, at, creates, changes)
    }

    fn mark(&self, connection: &Connection, lease: &NewLease, destroys: &[&Destroy], locks: Locks) -> usize {
        let (marked, others) = match locks {
            Locks::Skipped => mark_directly(lease, destroys),
            Locks::Awaited => (0, (0..destroys.len()).collect()),
        };
        marked + shared::mark(connection, lease, &at_positions(destroys, &others))
    }

    fn activate(&self, connection: &Connection, all: &EndedLeases, buckets: &[&Bucket], held: HeldFor) -> usize {
        let (activated, others) = change_held(all, held, buckets, |table, row, _| {
            let free = (claim::LEASE_UUID, None::<PgUuid>.into());
            table.update(row, &[(claim::STATUS, ACTIVE.into()), free, (claim::UPDATED_AT, all.at.into())])
        });
        activated + shared::activate(connection, all, &at_positions(buckets, &others), held)
    }

    fn remove(&self, connection: &Connection, all: &EndedLeases, buckets: &[&Bucket], held: HeldFor) -> usize {
        let (removed, others) = change_held(all, held, buckets, |table, row, _| table.delete(row));
        removed + shared::remove(connection, all, &at_positions(buckets, &others), held)
    }
}

/// Inserts the lease and its creates, in bucket order, without a statement. Waits for no other transaction. Returns `None` if the tables are not as the
/// extension has created them.
fn put_directly(lease: &NewLease, creates: &[&Claim]) -> Option<Result<usize, KeyExists>> {
    let [uuid, cell_id, made_at] = lease.key_values();
    let [_, _, _, payload, digest, cell_xid] = lease.values();
    let made_again = lease.made_at.into();
    let insert = |[leases, claims]: [&Table; 2]| {
        let _waits = LockWaits::limit(EXTENSION_LOCK_TIMEOUT_MS);
        let position = leases.insert_if_free(&[uuid, cell_id, payload, made_at, made_again, digest, cell_xid])?;
        positions::remember([(Key::Lease(lease.uuid), position)]);
        match creates {
            [] => {}
            [only] => {
                let position = claims.insert_if_free(&row_of(lease, only))?;
                positions::remember([(Key::Claim(&only.bucket), position)]);
            }
            _ => {
                let rows: Vec<Vec<Value>> = creates.iter().map(|claim| row_of(lease, claim).into()).collect();
                let keys = creates.iter().map(|claim| Key::Claim(&claim.bucket));
                positions::remember(keys.zip(claims.insert_all_if_free(&rows)?));
            }
        }
        Ok(creates.len())
    };
    direct::open([&LEASES, &CLAIMS], insert).map(|put| put.map_err(|_: Conflict| KeyExists))
}

/// Returns the row of a claim that a lease creates, in the order of [`CLAIMS`].
fn row_of(lease: &NewLease, claim: &Claim) -> [Value; 13] {
    let held = (pg_uuid(lease.uuid).into(), HeldFor::Creating as i16);
    new_row(claim, lease.cell_id, held, lease.made_at)
}

/// Marks the cell's ACTIVE claims among the destroys without a statement, as [`ClaimTables::mark`]. Passes over claims that another
/// transaction has locked. Returns the number of those that it has marked, and the positions of those for which a statement is needed, as
/// [`change_held`] does.
fn mark_directly(lease: &NewLease, destroys: &[&Destroy]) -> (usize, Vec<usize>) {
    let buckets: Vec<&Bucket> = destroys.iter().map(|destroy| &destroy.bucket).collect();
    let is_owned = |row: &StoredRow, at: usize| is_owned(row, lease.cell_id, destroys[at]);
    let changes: [(usize, Value); 3] = [
        (claim::STATUS, (HeldFor::Destroying as i16).into()),
        (claim::LEASE_UUID, pg_uuid(lease.uuid).into()),
        (claim::UPDATED_AT, lease.made_at.into()),
    ];
    change_where(
        &buckets,
        |_| None,
        is_owned,
        |table, row, at| {
            match table.lock(row, RowLock::NoKeyUpdate) {
                Changed::Done => {}
                locked => return locked,
            }
            let _waits = LockWaits::limit(EXTENSION_LOCK_TIMEOUT_MS);
            match table.update_to(row, &changes) {
                Ok(position) => {
                    positions::remember([(Key::Claim(buckets[at]), position)]);
                    Changed::Done
                }
                Err(other) => other,
            }
        },
    )
}

/// Calls `change` for the claims on buckets that ended leases hold with a status, as [`change_where`].
fn change_held(
    all: &EndedLeases,
    held: HeldFor,
    buckets: &[&Bucket],
    change: impl FnMut(&Table, &StoredRow, usize) -> Changed,
) -> (usize, Vec<usize>) {
    let is_held = |row: &StoredRow, _| {
        let holder = row.get::<PgUuid>(claim::LEASE_UUID).map(from_pg_uuid);
        row.get(claim::STATUS) == Some(held as i16) && holder.is_some_and(|holder| all.leases.contains(&holder))
    };
    change_where(buckets, |bucket| positions::take(Key::Claim(bucket)), is_held, change)
}

/// Calls `change` for the claims on buckets that pass a test, without a statement. Its arguments are the row and the position of its bucket.
/// `written_at` says where this session has written a claim, if it knows.
/// Returns the number of claims that were changed, and the positions of those for which a statement is needed: another transaction has
/// changed them since the snapshot, or the table is not as the extension has created it.
fn change_where(
    buckets: &[&Bucket],
    written_at: impl Fn(&Bucket) -> Option<Position>,
    is_to_change: impl Fn(&StoredRow, usize) -> bool,
    mut change: impl FnMut(&Table, &StoredRow, usize) -> Changed,
) -> (usize, Vec<usize>) {
    if buckets.is_empty() {
        return (0, Vec::new());
    }
    let changed = direct::open([&CLAIMS], |[claims]| {
        claims.look_up(Reading::Statement, |rows| {
            let (mut changed, mut others) = (0, Vec::new());
            for (at, bucket) in buckets.iter().enumerate() {
                let row = rows.find_from(written_at(bucket), key_of(bucket), |row| is_to_change(row, at));
                match row.map(|row| change(claims, &row, at)) {
                    None | Some(Changed::Busy) => {}
                    Some(Changed::Done) => changed += 1,
                    Some(Changed::Since | Changed::ByUs) => others.push(at),
                }
            }
            (changed, others)
        })
    });
    changed.unwrap_or_else(|| (0, (0..buckets.len()).collect()))
}

fn at_positions<T: Copy>(items: &[T], positions: &[usize]) -> Vec<T> {
    positions.iter().map(|at| items[*at]).collect()
}

/// Returns bucket, subject and source, which are the first columns of a row.
fn claim_of(bucket_type: i32, row: &Row) -> (Bucket<'static>, Reference<'static>, Reference<'static>) {
    let text = |column| row.must::<String>(column).into();
    (
        Bucket { bucket_type, value: text(1) },
        Reference { type_id: row.must(2), id: text(3) },
        Reference { type_id: row.must(4), id: text(5) },
    )
}
