//! Statements that take claims, settle them, and find the claims on buckets.

use std::collections::{HashMap, HashSet};

use claims_model::attribution::Attribution;
use claims_model::{Bucket, Claim, Destroy, NOBODY};
use uuid::Uuid;

use super::positions::{self, RowKey};
use super::rows::{EXTENSION_LOCK_TIMEOUT_MS, is_owned, key_of, new_row, reference, replacement};
use super::{standing, unleased};
use crate::kernel::direct;
use crate::kernel::direct::layouts::{CLAIMS, LEASES, claim};
use crate::kernel::tables::Local;
use crate::service::claims::StoredOwner;
use crate::service::claims::buckets::{BucketRow, NewClaims};
use crate::service::claims::kept;
use crate::service::claims::leases::NewLease;
use crate::service::claims::rows::{ACTIVE, EndedLeases, FoundClaim, HeldFor, KEPT_BACK, ToKeep};
use crate::service::claims::statements::{self as shared, ClaimOrigin};
use crate::service::claims::tables::{ClaimTables, KeyExists, Locks, RowsToInsert};
use pg::clock::Moment;
use pg::direct::{Changed, Conflict, Position, Reading, Row as StoredRow, RowLock, Table};
use pg::jsonb::Jsonb;
use pg::query::query;
use pg::settings::LockWaits;
use pg::spi::{Connection, Value};
use pg::xact::Surroundings;
use pg::xid8::Xid8;

/// Adds claims of a cell that no lease holds, in the order of the arrays.
macro_rules! add {
    ($conflict:literal) => {
        concat!(
            "INSERT INTO claims.claims (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id,
                                        creator_id, status, created_at, updated_at, display_value)
             SELECT unnest(:uuid), unnest(:bucket_type), unnest(:bucket_value), unnest(:subject_type), unnest(:subject_id),
                    unnest(:source_type), unnest(:source_id), :cell_id, 1::smallint, :at, :at, unnest(:display_value)",
            $conflict
        )
    };
}

// Where a table is as the extension has created it, claims are written without statements. These insert and replace rows in all other cases.
query! {
    fn add_all(cell_id: i64, at: Moment; ..new: NewClaims) -> usize = [Statement] add!("");
    /// Adds the claims whose buckets are free. Returns their buckets.
    fn add_free(cell_id: i64, at: Moment; ..new: NewClaims) -> Vec<BucketRow> = [Statement]
        add!(" ON CONFLICT (bucket_value, bucket_type) DO NOTHING RETURNING bucket_type, bucket_value");
    fn insert_lease(
        uuid: Uuid, cell_id: i64, at: Moment, payload: Jsonb, request_digest: &[u8], cell_xid: Option<Xid8>, context: Option<&str>,
        cell_role: Option<&str>,
    ) = [Statement]
        "INSERT INTO claims.claim_leases (uuid, creator_id, created_at, updated_at, payload, request_digest, cell_xid, context, cell_role)
         VALUES (:uuid, :cell_id, :at, :at, :payload, :request_digest, :cell_xid, :context, :cell_role)";
}

/// Inserts the lease and its creates, in bucket order. Returns the number of claims. An existing bucket is a unique violation. A row that
/// another transaction has locked runs into `lock_timeout`.
fn put_lease(connection: &Connection, lease: &NewLease, creates: &[&Claim]) -> usize {
    let (payload, digest) = (lease.payload.clone(), lease.stored_digest());
    let Attribution { context, cell_role } = &lease.attribution;
    let (context, cell_role) = (context.as_deref(), cell_role.as_deref());
    insert_lease(
        connection,
        lease.uuid,
        lease.cell_id,
        lease.made_at,
        payload,
        &digest,
        lease.cell_xid,
        context,
        cell_role,
    );
    creates.iter().map(|claim| shared::create(connection, ClaimOrigin::lease(lease), claim)).sum()
}

/// Adds ACTIVE claims of a cell. Returns their number. An existing name is a unique violation.
pub fn add(connection: &Connection, cell_id: i64, claims: &[&Claim]) -> usize {
    add_all(connection, cell_id, Moment::now(), NewClaims::of(claims))
}

impl ClaimTables for Local {
    fn standing(&self, connection: &Connection, buckets: &[&Bucket]) -> HashMap<Bucket<'static>, FoundClaim> {
        standing::on(connection, buckets)
    }

    /// Looks the claims up without a statement, because every audited settlement asks this.
    fn owners(&self, connection: &Connection, buckets: &[&Bucket]) -> HashMap<Bucket<'static>, StoredOwner> {
        let found = direct::open([&CLAIMS], |[claims]| {
            claims.look_up(Reading::Statement, |rows| {
                let owner = |bucket: &&Bucket| {
                    let row = rows.find(key_of(bucket), |row| row.get(claim::CREATOR_ID) != Some(NOBODY))?;
                    let subject = reference(&row, claim::SUBJECT_TYPE, claim::SUBJECT_ID)?;
                    let source = reference(&row, claim::SOURCE_TYPE, claim::SOURCE_ID)?;
                    let bucket = Bucket { bucket_type: bucket.bucket_type, value: bucket.value.to_string().into() };
                    Some((bucket, StoredOwner { subject, source }))
                };
                buckets.iter().filter_map(owner).collect()
            })
        });
        let owner = |found: FoundClaim| StoredOwner { subject: found.subject, source: found.source };
        let by_statement = || {
            let found = self.standing(connection, buckets).into_iter().filter(|(_, found)| found.kept.is_none());
            found.map(|(bucket, found)| (bucket, owner(found))).collect()
        };
        found.unwrap_or_else(by_statement)
    }

    fn replace(&self, connection: &Connection, all: &EndedLeases, claims: &[(Uuid, &Claim)]) -> usize {
        let buckets: Vec<&Bucket> = claims.iter().map(|(_, claim)| &claim.bucket).collect();
        let (replaced, others) = change_held(all, HeldFor::Destroying, &buckets, |table, row, at| {
            table.update(row, &replacement(claims[at].1, all.at))
        });
        let others = at_positions(claims, &others).into_iter();
        replaced + others.map(|(lease, claim)| shared::replace(connection, lease, claim, all.at)).sum::<usize>()
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
            RowsToInsert::Claim(claim) => shared::create(connection, ClaimOrigin::lease(lease), claim),
        })
    }

    fn add_new(
        &self,
        connection: &Connection,
        cell_id: i64,
        claims: &[&Claim],
        _: Surroundings,
    ) -> HashSet<Bucket<'static>> {
        let added = add_free(connection, cell_id, Moment::now(), NewClaims::of(claims));
        added.into_iter().map(Bucket::from).collect()
    }

    fn add(&self, connection: &Connection, cell_id: i64, claims: &[&Claim], _: Surroundings) -> usize {
        add(connection, cell_id, claims)
    }

    fn create_now(&self, cell_id: i64, at: Moment, claim: &Claim) -> bool {
        unleased::create(cell_id, at, claim)
    }

    fn change_now(
        &self,
        cell_id: i64,
        at: Moment,
        creates: &[&Claim],
        changes: &[(&Destroy, Option<&Claim>)],
    ) -> Option<Result<usize, KeyExists>> {
        unleased::change(cell_id, at, creates, changes)
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
            let free = (claim::LEASE_UUID, None::<Uuid>.into());
            table.update(row, &[(claim::STATUS, ACTIVE.into()), free, (claim::UPDATED_AT, all.at.into())])
        });
        activated + shared::activate(connection, all, &at_positions(buckets, &others), held)
    }

    fn keep_back(&self, connection: &Connection, all: &EndedLeases, names: &ToKeep) -> usize {
        let ToKeep { held, buckets, available_at } = *names;
        let (kept, others) = change_held(all, held, buckets, |table, row, _| {
            let changes: [(usize, Value); 6] = [
                (claim::CREATOR_ID, NOBODY.into()),
                (claim::LEASE_UUID, None::<Uuid>.into()),
                (claim::STATUS, KEPT_BACK.into()),
                (claim::UPDATED_AT, all.at.into()),
                (claim::GIVEN_UP_BY, row.get::<i64>(claim::CREATOR_ID).into()),
                (claim::AVAILABLE_AT, available_at.into()),
            ];
            table.update(row, &changes)
        });
        kept + kept::keep_back(connection, all, &ToKeep { buckets: &at_positions(buckets, &others), ..*names })
    }

    fn remove(&self, connection: &Connection, all: &EndedLeases, buckets: &[&Bucket], held: HeldFor) -> usize {
        let (removed, others) = change_held(all, held, buckets, |table, row, _| table.delete(row));
        removed + shared::remove(connection, all, &at_positions(buckets, &others), held)
    }
}

/// Inserts the lease and its creates, in bucket order, without a statement. Waits for no other transaction. Returns `None` if the tables are not as the
/// extension has created them.
fn put_directly(lease: &NewLease, creates: &[&Claim]) -> Option<Result<usize, KeyExists>> {
    let (made_at, digest) = (lease.made_at, lease.stored_digest());
    let row: [Value; 9] = [
        lease.uuid.into(),
        lease.cell_id.into(),
        lease.payload.clone().into(),
        made_at.into(),
        made_at.into(),
        digest.as_slice().into(),
        lease.cell_xid.into(),
        lease.attribution.context.as_deref().into(),
        lease.attribution.cell_role.as_deref().into(),
    ];
    let insert = |[leases, claims]: [&Table; 2]| {
        let _waits = LockWaits::limit(EXTENSION_LOCK_TIMEOUT_MS);
        let position = leases.insert_if_free(&row)?;
        positions::remember([(RowKey::Lease(lease.uuid), position)]);
        match creates {
            [] => {}
            [only] => {
                let position = claims.insert_if_free(&row_of(lease, only))?;
                positions::remember([(RowKey::Claim(&only.bucket), position)]);
            }
            _ => {
                let put = claims.insert_all_if_free(creates.iter().map(|claim| row_of(lease, claim)))?;
                positions::remember(creates.iter().map(|claim| RowKey::Claim(&claim.bucket)).zip(put));
            }
        }
        Ok(creates.len())
    };
    direct::open([&LEASES, &CLAIMS], insert).map(|put| put.map_err(|_: Conflict| KeyExists))
}

/// Returns the row of a claim that a lease creates, in the order of [`CLAIMS`].
fn row_of(lease: &NewLease, claim: &Claim) -> [Value; 15] {
    new_row(claim, lease.cell_id, (Some(lease.uuid), HeldFor::Creating as i16), lease.made_at)
}

/// Marks the cell's ACTIVE claims among the destroys without a statement, as [`ClaimTables::mark`]. Passes over claims that another
/// transaction has locked. Returns the number of those that it has marked, and the positions of those for which a statement is needed, as
/// [`change_held`] does.
fn mark_directly(lease: &NewLease, destroys: &[&Destroy]) -> (usize, Vec<usize>) {
    let buckets: Vec<&Bucket> = destroys.iter().map(|destroy| &destroy.bucket).collect();
    let is_owned = |row: &StoredRow, at: usize| is_owned(row, lease.cell_id, destroys[at]);
    let changes: [(usize, Value); 3] = [
        (claim::STATUS, (HeldFor::Destroying as i16).into()),
        (claim::LEASE_UUID, lease.uuid.into()),
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
                    positions::remember([(RowKey::Claim(buckets[at]), position)]);
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
        let holder = row.get::<Uuid>(claim::LEASE_UUID);
        row.get(claim::STATUS) == Some(held as i16) && holder.is_some_and(|holder| all.leases.contains(&holder))
    };
    change_where(buckets, |bucket| positions::take(RowKey::Claim(bucket)), is_held, change)
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
