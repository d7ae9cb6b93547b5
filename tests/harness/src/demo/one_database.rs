//! Chapter 11: a column that is unique across tenants' schemas and partitions of one database.

use super::cast::World;
use super::screen::Screen;
use anyhow::Result;
use postgres::Client;
use postgres::error::SqlState;

/// A database for itself: it has no cell and calls no service.
const ALONE: &str = "claims_demo_alone";

pub fn tell(screen: &mut Screen, world: &mut World) -> Result<()> {
    screen.say(
        "Another database has no other ones beside it, but two tenants in their schemas, and sign-ups in partitions. \
         PostgreSQL's UNIQUE ends at each of these tables. One call makes the email unique in all of them:",
    );
    let mut alone = world.server.fresh_database(ALONE)?;
    alone.batch_execute(
        "CREATE EXTENSION claims; CREATE SCHEMA acme; CREATE SCHEMA globex;
         CREATE TABLE acme.users (email text); CREATE TABLE globex.users (email text);
         CREATE TABLE sign_ups (day date, email text) PARTITION BY RANGE (day);
         CREATE TABLE sign_ups_2024 PARTITION OF sign_ups FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
         CREATE TABLE sign_ups_2025 PARTITION OF sign_ups FOR VALUES FROM ('2025-01-01') TO ('2026-01-01')",
    )?;
    run(
        screen,
        &mut alone,
        "SELECT claims.add_unique('email_once', '{acme.users, globex.users, sign_ups}', 'email', 'casefold')",
    )?;
    run(screen, &mut alone, "INSERT INTO acme.users VALUES ('ann@example.com')")?;
    run(screen, &mut alone, "INSERT INTO sign_ups VALUES ('2024-03-01', 'bob@example.com')")?;
    screen.blank();
    violations(screen, &mut alone)?;
    screen.blank();
    partition_goes(screen, &mut alone)?;
    drop(alone);
    world.server.drop_database(ALONE)
}

fn violations(screen: &mut Screen, alone: &mut Client) -> Result<()> {
    for (statement, holder) in [
        ("INSERT INTO globex.users VALUES ('Ann@example.com')", "acme.users"),
        ("INSERT INTO sign_ups VALUES ('2025-07-01', 'bob@example.com')", "sign_ups_2024"),
    ] {
        screen.label("SQL", statement);
        let refused = alone.batch_execute(statement).err().and_then(|error| error.as_db_error().cloned());
        if let Some(error) = &refused {
            screen.label("ERROR", error.message());
            screen.label("DETAIL", error.detail().unwrap_or_default());
        }
        let as_postgresql = |error: &postgres::error::DbError| {
            *error.code() == SqlState::UNIQUE_VIOLATION
                && error.constraint() == Some("email_once")
                && error.detail().is_some_and(|detail| detail.contains(holder))
        };
        screen.expect(
            refused.as_ref().is_some_and(as_postgresql),
            "PostgreSQL's own error for a duplicate key: applications and ORMs know it",
        );
    }
    Ok(())
}

fn partition_goes(screen: &mut Screen, alone: &mut Client) -> Result<()> {
    screen.say("Retention drops a partition, and what stood in it is free at once, however much it was:");
    run(screen, alone, "DROP TABLE sign_ups_2024")?;
    run(screen, alone, "INSERT INTO globex.users VALUES ('bob@example.com')")?;
    let twice: i64 = alone
        .query_one(
            "SELECT count(*) - count(DISTINCT lower(email)) FROM (SELECT email FROM acme.users
             UNION ALL SELECT email FROM globex.users UNION ALL SELECT email FROM sign_ups) AS u",
            &[],
        )?
        .get(0);
    screen.expect(twice == 0, "bob is a user of globex, and no email stands twice");
    let violations = alone.query("SELECT FROM claims.check()", &[])?;
    screen.expect(violations.is_empty(), "claims.check() finds nothing");
    Ok(())
}

/// Runs a statement that succeeds, and shows it.
fn run(screen: &Screen, alone: &mut Client, statement: &str) -> Result<()> {
    screen.label("SQL", statement);
    Ok(alone.batch_execute(statement)?)
}
