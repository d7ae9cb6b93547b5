//! Statements on distributed tables that write to all shards of a node that a batch needs. Citus plans a write to one of the
//! shards, and for the row there a function writes to the others ([`super::on_node`]).
//!
//! Citus does not know of the writes to the other shards. So this module takes the locks on them that Citus takes on shards that
//! it writes to, before it looks up their nodes: they cannot be moved until the transaction ends. Citus does know that the
//! connection to the node has written, and commits it with the others. But it does not know which connection has written to the
//! other shards. So these statements are only for transactions with one connection to each node. A transaction of the client with
//! statements of its own may have several.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};

use claims_model::{Bucket, Claim, Destroy};
use pgrx::pg_sys;
use uuid::Uuid;

use super::cluster::Citus;
use super::keys::{grouped, shards_of_buckets};
use super::{claims as distributed, leases};
use crate::service::claims::kept;
use crate::service::claims::statements::{self as shared, ClaimOrigin, HeldOnNodes, INTO_CLAIMS};
use crate::service::claims::{
    ClaimTables, EndedLeases, FoundClaim, HeldFor, KeyExists, Locks, NewClaim, NewClaims, NewLease, RowsToInsert,
    ToKeep, types_and_names,
};
use pg::clock::Moment;
use pg::query::{Arguments, Record, query, record};
use pg::spi::{Connection, Value, View};
use pg::statement::{Reach, Statement};
use pg::xact::Surroundings;

record! {
    struct Placement { shardid: i64, groupid: i32 }
}

query! {
    /// Returns the shards of a lease, if one is given, and of buckets, in their order, and locks them against being moved. Citus takes lock
    /// mode 5 on every shard that it writes to. Reads the catalogs of this node only.
    fn locked_shards(lease: Option<Uuid>, bucket_values: &[&str]) -> Vec<i64> = [Latest OneShard]
        "SELECT s.shard, lock_shard_metadata(5, ARRAY[s.shard])
           FROM (SELECT 0 AS nth, get_shard_id_for_distribution_column('claims.claim_leases', :lease) AS shard WHERE :lease IS NOT NULL
                 UNION ALL
                 SELECT n.nth, get_shard_id_for_distribution_column('claims.claims', n.value)
                   FROM unnest(:bucket_values) WITH ORDINALITY AS n (value, nth) OFFSET 0) s
          ORDER BY s.nth";
    fn placements(shards: &[i64]) -> Vec<Placement> = [Latest OneShard]
        "SELECT p.shardid, p.groupid FROM pg_dist_placement p WHERE p.shardid = ANY (:shards)";
    fn activate_one(lease: Uuid, bucket_type: i32, bucket_value: &str, status: i16, at: Moment) -> usize = [Statement OneShard]
        "UPDATE claims.claims c SET status = 1, lease_uuid = NULL, updated_at = :at
          WHERE c.bucket_value = :bucket_value AND c.bucket_type = :bucket_type AND c.lease_uuid = :lease AND c.status = :status";
    fn remove_one(lease: Uuid, bucket_type: i32, bucket_value: &str, status: i16) -> usize = [Statement OneShard]
        "DELETE FROM claims.claims c
          WHERE c.bucket_value = :bucket_value AND c.bucket_type = :bucket_type AND c.lease_uuid = :lease AND c.status = :status";
}

/// The shard and the node of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Location {
    shard: i64,
    node: i32,
}

/// Returns the shards and nodes of a lease, if one is given, and of buckets, in their order. They do not change until the
/// transaction ends. `None` if a shard is on several nodes.
fn locations<'b>(
    connection: &Connection,
    lease: Option<Uuid>,
    buckets: impl Iterator<Item = &'b Bucket<'b>>,
) -> Option<Vec<Location>> {
    let values: Vec<&str> = buckets.map(|bucket| &*bucket.value).collect();
    let shards = locked_shards(connection, lease, &values);
    let mut distinct = shards.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let found = placements(connection, &distinct);
    let nodes: HashMap<i64, i32> = found.iter().map(|placement| (placement.shardid, placement.groupid)).collect();
    if found.len() != distinct.len() || nodes.len() != distinct.len() {
        return None;
    }
    shards.into_iter().map(|shard| Some(Location { shard, node: *nodes.get(&shard)? })).collect()
}

/// Groups rows by their nodes, in their order.
fn by_node<T>(rows: impl Iterator<Item = (Location, T)>) -> BTreeMap<i32, Vec<(i64, T)>> {
    let mut nodes: BTreeMap<i32, Vec<(i64, T)>> = BTreeMap::new();
    for (location, row) in rows {
        nodes.entry(location.node).or_default().push((location.shard, row));
    }
    nodes
}

/// The rows of a batch by node: an anchor row for each node, and further rows for the same nodes.
struct Parts<T> {
    anchors: Vec<T>,
    further: Vec<T>,
    /// The node of each further row, as the number of its anchor from 1.
    parts: Vec<i32>,
    shards: Vec<i64>,
}

impl<T: Copy> Parts<T> {
    /// Takes the first row of each node as its anchor. Of the other rows it takes those that the anchor's statement does not
    /// cover.
    fn of(nodes: BTreeMap<i32, Vec<(i64, T)>>, is_further: impl Fn(T) -> bool) -> Self {
        let anchors: Vec<T> = nodes.values().filter_map(|rows| rows.first()).map(|(_, row)| *row).collect();
        let mut all = Parts { anchors, further: Vec::new(), parts: Vec::new(), shards: Vec::new() };
        for (part, rows) in (1..).zip(nodes.into_values()) {
            for (shard, row) in rows.into_iter().skip(1).filter(|(_, row)| is_further(*row)) {
                all.further.push(row);
                all.parts.push(part);
                all.shards.push(shard);
            }
        }
        all
    }
}

/// Inserts a lease and claims: one statement for the lease's node, and one for all others. Returns the number of claims. An
/// existing key is a unique violation.
fn take(connection: &Connection, lease: &NewLease, creates: &[&Claim]) -> usize {
    let buckets = creates.iter().map(|claim| &claim.bucket);
    let locations = locations(connection, Some(lease.uuid), buckets);
    let Some([of_lease, of_claims @ ..]) = locations.as_deref() else {
        leases::put_lease(connection, lease);
        return distributed::put(connection, ClaimOrigin::lease(lease), creates);
    };
    let mut nodes = by_node(of_claims.iter().copied().zip(creates.iter().copied()));
    let beside = nodes.remove(&of_lease.node).unwrap_or_default();
    put_with_lease(connection, lease, &beside) + put_by_node(connection, ClaimOrigin::lease(lease), nodes)
}

fn put_with_lease(connection: &Connection, lease: &NewLease, beside: &[(i64, &Claim)]) -> usize {
    if beside.is_empty() {
        leases::put_lease(connection, lease);
        return 0;
    }
    let (shards, claims): (Vec<i64>, Vec<&Claim>) = beside.iter().copied().unzip();
    written(leases::put_with_claims(connection, lease, &shards, &claims))
}

/// Creates claims by one statement for all nodes. Returns their number.
fn put_by_node(connection: &Connection, origin: ClaimOrigin, nodes: BTreeMap<i32, Vec<(i64, &Claim)>>) -> usize {
    let all = Parts::of(nodes, |_| true);
    if all.further.is_empty() {
        return if all.anchors.is_empty() { 0 } else { distributed::put(connection, origin, &all.anchors) };
    }
    let anchors = all.anchors.iter().map(|claim| &*claim.bucket.value).collect::<Vec<_>>();
    let locations: [Value; 3] = [anchors.into(), all.parts.into(), all.shards.into()];
    let anchored = all.anchors.iter().flat_map(|claim| NewClaim::of(claim).values());
    let values = distributed::origin_values(origin)
        .into_iter()
        .chain(locations)
        .chain(NewClaims::of(&all.further).values())
        .chain(anchored);
    let rows = connection.run_leaked(create_at(all.anchors.len(), origin.status()), View::Statement, values);
    rows.count() + written(rows.map(|row| i32::read(&row)))
}

thread_local! {
    /// The statements of [create_at], by the number of their anchor rows, which is one for each node, and the status.
    static CREATE: RefCell<HashMap<(usize, i16), &'static Statement>> = RefCell::default();
}

/// Returns the statement that inserts an anchor row with a status on each of several nodes, and further rows there.
fn create_at(nodes: usize, status: i16) -> &'static Statement {
    CREATE.with_borrow_mut(|all| *all.entry((nodes, status)).or_insert_with(|| build_create_at(nodes, status)))
}

fn build_create_at(nodes: usize, status: i16) -> &'static Statement {
    use pg_sys::{INT4ARRAYOID, INT8ARRAYOID, INT8OID, TEXTARRAYOID, TIMESTAMPTZOID, UUIDOID};
    const LEASE_AND_LOCATIONS: [pg_sys::Oid; 6] =
        [UUIDOID, INT8OID, TIMESTAMPTZOID, TEXTARRAYOID, INT4ARRAYOID, INT8ARRAYOID];
    let before_rows: Vec<pg_sys::Oid> =
        LEASE_AND_LOCATIONS.into_iter().chain(NewClaims::TYPES.iter().copied()).collect();
    let rows: Vec<String> =
        (0..nodes).map(|nth| distributed::row(status, before_rows.len() + NewClaim::TYPES.len() * nth)).collect();
    let types: Vec<pg_sys::Oid> =
        before_rows.into_iter().chain((0..nodes).flat_map(|_| NewClaim::TYPES.iter().copied())).collect();
    let text = format!(
        "{INTO_CLAIMS}VALUES {} RETURNING claims.create_on_node(bucket_value, {})",
        rows.join(", "),
        // The locations, the lease, and the arrays of the further rows.
        [4, 5, 6, 1, 2, 3, 7, 8, 9, 10, 11, 12, 13, 14].map(|parameter: i32| format!("${parameter}")).join(", ")
    );
    Statement::leaked(text, Vec::from([&*types.leak()]).leak(), Reach::OneShard)
}

/// Adds up the numbers of rows that the functions have written.
fn written(counts: Vec<i32>) -> usize {
    counts.into_iter().map(|count| usize::try_from(count).unwrap_or(0)).sum()
}

impl ClaimTables for Citus {
    fn activate(&self, connection: &Connection, all: &EndedLeases, buckets: &[&Bucket], held: HeldFor) -> usize {
        match (all.leases.as_slice(), buckets) {
            ([lease], [only]) => activate_one(connection, *lease, only.bucket_type, &only.value, held as i16, all.at),
            _ => with_rest(on_nodes(connection, all, buckets, held, Some(all.at)), buckets.len(), || {
                shared::activate(connection, all, buckets, held)
            }),
        }
    }

    fn remove(&self, connection: &Connection, all: &EndedLeases, buckets: &[&Bucket], held: HeldFor) -> usize {
        match (all.leases.as_slice(), buckets) {
            ([lease], [only]) => remove_one(connection, *lease, only.bucket_type, &only.value, held as i16),
            _ => with_rest(on_nodes(connection, all, buckets, held, None), buckets.len(), || {
                shared::remove(connection, all, buckets, held)
            }),
        }
    }

    fn take(
        &self,
        connection: &Connection,
        lease: &NewLease,
        rows: RowsToInsert,
        around: Surroundings,
    ) -> Result<usize, KeyExists> {
        Ok(match rows {
            RowsToInsert::Batch(creates) if around == Surroundings::Alone && !creates.is_empty() => {
                take(connection, lease, creates)
            }
            RowsToInsert::Batch(creates) => {
                leases::put_lease(connection, lease);
                distributed::put(connection, ClaimOrigin::lease(lease), creates)
            }
            RowsToInsert::Lease => {
                leases::put_lease(connection, lease);
                0
            }
            RowsToInsert::Claim(claim) => distributed::put(connection, ClaimOrigin::lease(lease), &[claim]),
        })
    }

    fn add_new(
        &self,
        connection: &Connection,
        cell_id: i64,
        claims: &[&Claim],
        around: Surroundings,
    ) -> HashSet<Bucket<'static>> {
        self.add(connection, cell_id, claims, around);
        let owned = |Bucket { bucket_type, value }: &Bucket| Bucket {
            bucket_type: *bucket_type,
            value: value.clone().into_owned().into(),
        };
        claims.iter().map(|claim| owned(&claim.bucket)).collect()
    }

    /// One statement adds the claims of all nodes.
    fn add(&self, connection: &Connection, cell_id: i64, claims: &[&Claim], around: Surroundings) -> usize {
        let origin = ClaimOrigin::cell(cell_id);
        let buckets = claims.iter().map(|claim| &claim.bucket);
        let locations = if around == Surroundings::Alone { locations(connection, None, buckets) } else { None };
        match locations {
            Some(locations) => {
                put_by_node(connection, origin, by_node(locations.into_iter().zip(claims.iter().copied())))
            }
            None => distributed::put(connection, origin, claims),
        }
    }

    fn parts(&self, connection: &Connection, buckets: &[&Bucket]) -> Vec<Vec<usize>> {
        grouped(shards_of_buckets(connection, buckets).into_iter().zip(0..)).into_values().collect()
    }

    fn keep_back(&self, connection: &Connection, all: &EndedLeases, names: &ToKeep) -> usize {
        kept::keep_back(connection, all, names)
    }

    fn mark(&self, connection: &Connection, lease: &NewLease, destroys: &[&Destroy], _: Locks) -> usize {
        shared::mark(connection, lease, destroys)
    }

    fn replace(&self, connection: &Connection, all: &EndedLeases, replaced: &[(Uuid, &Claim)]) -> usize {
        replaced.iter().map(|(lease, claim)| shared::replace(connection, *lease, claim, all.at)).sum()
    }

    fn standing(&self, connection: &Connection, buckets: &[&Bucket]) -> HashMap<Bucket<'static>, FoundClaim> {
        distributed::standing_on(connection, buckets)
    }
}

/// Returns the number of claims settled by [`on_nodes`], and by ordinary statements if that has not found all. A lease may reclaim the name that
/// is a node's anchor: no claim is there, so the statement has not come to the other claims of the node.
fn with_rest(settled: Option<usize>, wanted: usize, settle_rest: impl FnOnce() -> usize) -> usize {
    match settled {
        Some(settled) if settled == wanted => settled,
        settled => settled.unwrap_or(0) + settle_rest(),
    }
}

/// Makes claims ACTIVE at a time, or deletes them without one, on all nodes at once. `None` if an ordinary statement does the
/// same.
fn on_nodes(
    connection: &Connection,
    all: &EndedLeases,
    buckets: &[&Bucket],
    held: HeldFor,
    at: Option<Moment>,
) -> Option<usize> {
    // With several connections to a node, a statement must not write there without Citus knowing.
    if all.around != Surroundings::Alone || buckets.len() < 2 {
        return None;
    }
    let locations = locations(connection, None, buckets.iter().copied())?;
    let nodes = by_node(locations.into_iter().zip(buckets.iter().copied()));
    let anchored: HashSet<&str> = nodes.values().filter_map(|rows| rows.first()).map(|(_, row)| &*row.value).collect();
    // The statement on the anchors finds all types of the values that it names.
    let parts = Parts::of(nodes, |bucket| !anchored.contains(&*bucket.value));
    if parts.further.is_empty() {
        return None;
    }
    let (types, _) = types_and_names(buckets);
    let types_of = |buckets: &[&Bucket]| buckets.iter().map(|bucket| bucket.bucket_type).collect();
    let held = HeldOnNodes {
        leases: &all.leases,
        bucket_types: &types,
        bucket_values: &parts.anchors.iter().map(|bucket| &*bucket.value).collect::<Vec<_>>(),
        status: held as i16,
        anchor_types: types_of(&parts.anchors),
        parts: parts.parts,
        shards: parts.shards,
        further_types: types_of(&parts.further),
        further_values: parts.further.iter().map(|bucket| &*bucket.value).collect(),
    };
    let counts = match at {
        Some(at) => shared::activate_on_nodes(connection, at, held),
        None => shared::remove_on_nodes(connection, held),
    };
    Some(counts.len() + written(counts))
}
