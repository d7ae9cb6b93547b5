//! Statements on looks that are spread over the nodes of a Citus cluster, each for one row of one shard.

use claims_model::Bucket;
use claims_model::lookalike::{Look, NewLook};

use crate::pg::spi::{Connection, Value, View};
use crate::pg::statement::shard_statement;
use crate::pg::uuid::pg_uuid;

shard_statement! {
    TAKE(UUIDOID, INT4OID, TEXTOID) =
        "INSERT INTO claims.skeletons (skeleton, bucket_type, bucket_value) VALUES ($1, $2, $3)";
    TAKE_FREE(UUIDOID, INT4OID, TEXTOID) =
        "INSERT INTO claims.skeletons (skeleton, bucket_type, bucket_value) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    PASS_ON(UUIDOID, INT4OID, TEXTOID, TEXTOID) =
        "UPDATE claims.skeletons s SET successor = $4
          WHERE s.skeleton = $1 AND s.bucket_type = $2 AND s.bucket_value = $3 AND s.successor IS NULL";
    BEARERS(UUIDOID, INT4OID) =
        "SELECT s.bucket_value, s.successor FROM claims.skeletons s WHERE s.skeleton = $1 AND s.bucket_type = $2 FOR UPDATE";
    IS_CLAIMED(INT4OID, TEXTOID) = "SELECT 1 FROM claims.claims c WHERE c.bucket_value = $2 AND c.bucket_type = $1";
    DROP(UUIDOID, INT4OID) = "DELETE FROM claims.skeletons s WHERE s.skeleton = $1 AND s.bucket_type = $2";
    SUCCEED(UUIDOID, INT4OID, TEXTOID) =
        "UPDATE claims.skeletons s SET bucket_value = s.successor, successor = NULL
          WHERE s.skeleton = $1 AND s.bucket_type = $2 AND s.successor = $3";
    STAY(UUIDOID, INT4OID, TEXTOID) =
        "UPDATE claims.skeletons s SET successor = NULL WHERE s.skeleton = $1 AND s.bucket_type = $2 AND s.successor = $3";
    FREE(UUIDOID, INT4OID, TEXTOID) =
        "DELETE FROM claims.skeletons s WHERE s.skeleton = $1 AND s.bucket_type = $2 AND s.bucket_value = $3";
}

fn values(look: Look, bucket: &Bucket) -> [Value; 3] {
    [pg_uuid(look.skeleton).into(), look.bucket_type.into(), (&*bucket.value).into()]
}

/// Takes a look for a new name, or has the name that is given up pass its own on: 1. A look that another name has is a unique
/// violation.
pub fn take(connection: &Connection, new: &NewLook) -> usize {
    match new.predecessor {
        None => connection.run(&TAKE, View::Statement, values(new.look, new.bucket)).count(),
        Some(predecessor) => {
            let successor: Value = (&*new.bucket.value).into();
            let values = values(new.look, predecessor).into_iter().chain([successor]);
            connection.run(&PASS_ON, View::Statement, values).count()
        }
    }
}

/// Takes a look if no name has it.
pub fn take_free(connection: &Connection, (look, bucket): &(Look, &Bucket)) {
    connection.run(&TAKE_FREE, View::Statement, values(*look, bucket));
}

/// Frees a look, for a name that was just claimed, where no other name that has it is claimed.
pub fn drop_stale(connection: &Connection, new: &NewLook) {
    let key = || -> [Value; 2] { [pg_uuid(new.look.skeleton).into(), new.look.bucket_type.into()] };
    let bearers =
        connection.run(&BEARERS, View::Statement, key()).first(|row| (row.get::<String>(1), row.get::<String>(2)));
    let Some((bearer, successor)) = bearers else { return };
    let is_claimed = |name: &String| {
        let bucket: [Value; 2] = [new.look.bucket_type.into(), name.as_str().into()];
        connection.run(&IS_CLAIMED, View::Statement, bucket).count() > 0
    };
    let mut others = [bearer, successor].into_iter().flatten().filter(|name| *name != *new.bucket.value);
    if !others.any(|name| is_claimed(&name)) {
        connection.run(&DROP, View::Statement, key());
    }
}

/// The lease of a new name has committed: what was to be passed on is.
pub fn succeed(connection: &Connection, (look, bucket): &(Look, &Bucket)) {
    connection.run(&SUCCEED, View::Statement, values(*look, bucket));
}

/// The lease of a new name was rolled back: who was to pass the look on keeps it.
pub fn stay(connection: &Connection, (look, bucket): &(Look, &Bucket)) {
    connection.run(&STAY, View::Statement, values(*look, bucket));
}

/// Frees the look of a name that is no claim any more.
pub fn free(connection: &Connection, (look, bucket): &(Look, &Bucket)) {
    connection.run(&FREE, View::Statement, values(*look, bucket));
}
