//! Statements on shards of this node, for other nodes: they write to shards next to the one that Citus has sent the other node's
//! statement to.

use std::cell::RefCell;
use std::collections::HashMap;

use pgrx::pg_sys;

use crate::tables::rows::buckets::DISPLAYED_ARRAYS;
use pg::clock::Moment;
use pg::spi::{Connection, Value};
use pg::statement::{Statement, shard_statement};
use pg::xact;

shard_statement! {
    /// Returns whether one of the $2 transactions from $1 on (without its epoch) has told Citus of a new placement of one of the
    /// extension's shards.
    HAVE_MOVED(INT8OID, INT8OID) =
        "SELECT EXISTS (SELECT FROM pg_dist_placement p JOIN pg_dist_shard s ON s.shardid = p.shardid JOIN pg_class c ON c.oid = s.logicalrelid
                         WHERE c.relnamespace = 'claims'::regnamespace
                           AND (p.xmin::text::int8 - $1 + 4294967296) % 4294967296 < $2)";
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Create { status: i16 },
    Activate,
    Remove,
    Outcome,
}

thread_local! {
    static STATEMENTS: RefCell<HashMap<(Kind, i64), &'static Statement>> = RefCell::default();
}

fn statement(kind: Kind, shard: i64) -> &'static Statement {
    STATEMENTS.with_borrow_mut(|all| *all.entry((kind, shard)).or_insert_with(|| build(kind, shard)))
}

fn build(kind: Kind, shard: i64) -> &'static Statement {
    use pg_sys::{
        BYTEAOID, INT2OID, INT4ARRAYOID, INT8OID, TEXTARRAYOID, TEXTOID, TIMESTAMPTZOID, UUIDARRAYOID, UUIDOID,
    };
    match kind {
        Kind::Create { status } => Statement::leaked(
            format!(
                // unnest() in the select list costs a third of what it costs in FROM, where PostgreSQL would first write each array to a
                // tuplestore of its own.
                concat!(
                    insert_into!("claims_{}"),
                    "SELECT unnest($4), unnest($5), unnest($6), unnest($7), unnest($8), unnest($9), unnest($10), $2, $1, {}::smallint, $3, $3,
                            unnest($11)"
                ),
                shard, status
            ),
            [UUIDOID, INT8OID, TIMESTAMPTZOID].into_iter().chain(DISPLAYED_ARRAYS).collect::<Vec<_>>().leak(),
        ),
        Kind::Activate => Statement::leaked(
            format!(activate_held!("claims_{}"), shard),
            &[UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT2OID, TIMESTAMPTZOID],
        ),
        Kind::Remove => Statement::leaked(
            format!(remove_held!("claims_{}"), shard),
            &[UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT2OID],
        ),
        Kind::Outcome => Statement::leaked(
            format!(
                "INSERT INTO claims.lease_outcomes_{shard} (lease_uuid, creator_id, request_digest, outcome, settled_at)
                 VALUES ($1, $2, $3, $4, $5)"
            ),
            &[UUIDOID, INT8OID, BYTEAOID, TEXTOID, TIMESTAMPTZOID],
        ),
    }
}

/// Creates claims with a status in a shard. `origin` is the lease or NULL, the cell and the time. The columns of the claims are
/// arrays. Returns the number of claims.
pub fn create(connection: &Connection, shard: i64, status: i16, origin: [Value; 3], columns: [Value; 8]) -> usize {
    connection.run_here(statement(Kind::Create { status }, shard), origin.into_iter().chain(columns)).count()
}

/// Makes claims of a shard ACTIVE at a time, or deletes them without one. `held` has three arrays, of leases, types and values,
/// and the status. Returns the number of claims.
pub fn settle(connection: &Connection, shard: i64, held: [Value; 4], at: Option<Moment>) -> usize {
    match at {
        Some(at) => connection.run_here(statement(Kind::Activate, shard), held.into_iter().chain([at.into()])),
        None => connection.run_here(statement(Kind::Remove, shard), held),
    }
    .count()
}

/// Inserts the outcome of a lease: uuid, cell, digest, outcome and time.
pub fn put_outcome(connection: &Connection, shard: i64, outcome: [Value; 5]) -> usize {
    connection.run_here(statement(Kind::Outcome, shard), outcome).count()
}

/// Returns whether a transaction not older than `oldest` has moved a shard of the extension's tables.
pub fn have_moved(connection: &Connection, oldest: u64) -> bool {
    let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let values: [Value; 2] = [whole(oldest & u64::from(u32::MAX)).into(), whole(xact::next_xid().0 - oldest).into()];
    HAVE_MOVED.with(|statement| connection.run_here(statement, values).first(|row| row.must(1)).unwrap_or(false))
}
