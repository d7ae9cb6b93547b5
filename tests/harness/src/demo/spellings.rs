//! Chapter 9: spellings of one name, names that look alike, invalid names, and the first free name.

use super::cast::{NORTH, SHARED, SOUTH, World};
use super::screen::Screen;
use anyhow::Result;
use postgres::Client;
use serde_json::{Value, json};
use uuid::Uuid;

/// The Cyrillic letter that looks like an a.
const CYRILLIC_A: char = '\u{430}';

pub fn tell(screen: &mut Screen, world: &mut World) -> Result<()> {
    screen.say(
        "Bytes say that Ada and ada are two names. A bucket type has a profile, which says what people say: here \
         HANDLES by the rules for user names (RFC 8265), and no two that look alike.",
    );
    world.admin.batch_execute(
        "SELECT claims.add_bucket_type(100, 'HANDLES', 'username', 'reject');
         SELECT claims.add_bucket_type(101, 'HOSTS', 'domain'), claims.add_bucket_type(102, 'PATHS', 'path')",
    )?;
    let mut north = world.server.connect(SHARED, NORTH.role)?;
    let mut south = world.server.connect(SHARED, SOUTH.role)?;
    spellings(screen, &mut north)?;
    screen.blank();
    look_alikes(screen, &mut north, &mut south)?;
    screen.blank();
    first_free(screen, world, &mut south)
}

/// Shows canonical forms, without claiming names.
fn spellings(screen: &mut Screen, north: &mut Client) -> Result<()> {
    let names = [
        ("HANDLES", "Ada", Some("ada")),
        ("HANDLES", "\u{FF21}\u{FF24}\u{FF21}", Some("ada")),
        ("HANDLES", "ada lovelace", None),
        ("HOSTS", "B\u{FC}cher.Example", Some("xn--bcher-kva.example")),
        ("PATHS", "GitLab-Org/GitLab", Some("gitlab-org/gitlab")),
        ("PATHS", "gitlab-org/../root", None),
    ];
    let (mut rows, mut as_told) = (Vec::new(), true);
    for (kind, given, wanted) in names {
        let (canonical, told) = match north.query_one("SELECT claims.canonical($1, $2)", &[&kind, &given]) {
            Ok(row) => (Some(row.get::<_, String>(0)), row.get(0)),
            Err(error) => (None, refusal(&error)),
        };
        as_told &= canonical.as_deref() == wanted;
        rows.push(vec![kind.to_string(), given.to_string(), told]);
    }
    screen.table(&["type", "given", "becomes"], &rows);
    screen.expect(as_told, "every spelling has its one canonical form, or is none");
    Ok(())
}

fn look_alikes(screen: &mut Screen, north: &mut Client, south: &mut Client) -> Result<()> {
    let imitation = format!("p{CYRILLIC_A}yp{CYRILLIC_A}l");
    let lease = begin(north, &NORTH, "PayPal")?.map_err(anyhow::Error::msg)?;
    north.execute("SELECT claims.commit_update($1, $2)", &[&NORTH.id, &lease])?;
    screen.label("north", "claims PayPal");
    for (name, shown, reason) in [
        ("paypal", "paypal".to_string(), "taken"),
        (&imitation, format!("{imitation}, with Cyrillic letters"), "confusable"),
    ] {
        let conflict = begin(south, &SOUTH, name)?.err().unwrap_or_default();
        screen.label("south", &format!("asks for {shown}: {conflict}"));
        screen.expect(conflict == reason, &format!("that is {reason}"));
    }
    let row = south.query_one("SELECT bucket_value, display_value FROM claims.get_record('HANDLES', 'PAYPAL')", &[])?;
    let (stored, display): (String, Option<String>) = (row.get(0), row.get(1));
    screen.expect(
        stored == "paypal" && display.as_deref() == Some("PayPal"),
        "it is found in any spelling, and shown as it was given",
    );
    Ok(())
}

fn first_free(screen: &mut Screen, world: &mut World, south: &mut Client) -> Result<()> {
    world.admin.batch_execute("SELECT claims.reserve_names('HANDLES', ARRAY['Admin', 'root'], 'names of ours')")?;
    let wishes = ["Admin", "paypal", "south-bot"];
    screen.say("Nobody can have admin, which is reserved. A bot asks for one of several names in one call:");
    let alternatives: Value = wishes.iter().map(|name| json!({"create_records": [record(name)]})).collect();
    let row =
        south.query_one("SELECT lease_uuid, chosen FROM claims.begin_first($1, $2)", &[&SOUTH.id, &alternatives])?;
    let (lease, chosen): (Option<Uuid>, Option<i32>) = (row.get(0), row.get(1));
    let got = chosen.and_then(|chosen| wishes.get(usize::try_from(chosen).ok()?.checked_sub(1)?));
    screen.label("south", &format!("asks for {}, and gets {}", wishes.join(", "), got.unwrap_or(&"none")));
    screen.expect(chosen == Some(3), "the first that is free, without a call for each that is not");
    south.execute("SELECT claims.commit_update($1, $2)", &[&SOUTH.id, &lease])?;
    Ok(())
}

fn record(name: &str) -> Value {
    json!({"bucket": {"type": "HANDLES", "value": name}, "subject": {"type": "USER", "id": 1},
           "source": {"type": "RAILS_TABLE_USERS", "rails_primary_key_id": 1}})
}

/// Returns the lease, or the reason of the conflict.
fn begin(client: &mut Client, cell: &super::cast::Member, name: &str) -> Result<Result<Uuid, String>> {
    let row = client.query_one(
        "SELECT lease_uuid, conflicts -> 0 ->> 'reason' FROM claims.try_begin_update($1, $2)",
        &[&cell.id, &json!([record(name)])],
    )?;
    Ok(row.get::<_, Option<Uuid>>(0).ok_or_else(|| row.get::<_, Option<String>>(1).unwrap_or_default()))
}

/// Returns the service's refusal of an invalid name.
fn refusal(error: &postgres::Error) -> String {
    match error.as_db_error() {
        Some(refused) => format!("refused: {}", refused.detail().unwrap_or(refused.message())),
        None => error.to_string(),
    }
}
