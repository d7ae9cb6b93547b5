//! Chapter 5: the two shorter holds: keys until a deadline, requests for one transaction.

use super::cast::{SHARED, WORKER, World};
use super::screen::Screen;
use crate::server::fresh_role;
use anyhow::Result;
use postgres::Client;
use std::thread::sleep;
use std::time::Duration;
use uuid::Uuid;

pub fn tell(screen: &mut Screen, world: &mut World) -> Result<()> {
    fresh_role(&mut world.admin, WORKER)?;
    world.admin.batch_execute(&format!("SELECT claims.grant_worker('{WORKER}')"))?;
    world.admin.batch_execute("SELECT claims.add_expiring('service', ARRAY['s1', 's2', 's3', 's4', 's5'])")?;
    world.admin.batch_execute(&format!(
        "CREATE TABLE demo_done (entity text, request_type text); GRANT INSERT ON demo_done TO {WORKER}"
    ))?;
    expiring_claims(screen, world)?;
    screen.blank();
    requests(screen, world)
}

fn expiring_claims(screen: &mut Screen, world: &mut World) -> Result<()> {
    screen.say("Expiring claims: instances share five services, each service in one hand until a deadline.");
    let mut first = world.server.connect(SHARED, WORKER)?;
    let mut second = world.server.connect(SHARED, WORKER)?;
    let held = acquire(&mut first, "first", "1 second", 3)?;
    screen.label("first", &format!("acquires {} for a second, and falls asleep", names(&held)));
    let others = acquire(&mut second, "second", "1 minute", 5)?;
    screen.label("second", &format!("wants all five, and gets {}", names(&others)));
    screen.expect(held.len() == 3 && others.len() == 2, "the sets are disjoint, and nobody waited");
    sleep(Duration::from_millis(1200));
    let taken_over = acquire(&mut second, "second", "1 minute", 5)?;
    screen.label("second", &format!("takes over {} when the second is over", names(&taken_over)));
    screen.expect(taken_over.len() == 3, "what fell silent is taken over");
    let (key, token) = &held[0];
    let proof = first.execute("SELECT claims.assert_held('service', $1, $2)", &[key, token]);
    let refusal = proof.err().and_then(|error| error.as_db_error().cloned());
    if let Some(refusal) = &refusal {
        screen
            .label("first", &format!("wakes up and proves its hold: {} {}", refusal.code().code(), refusal.message()));
    }
    screen.expect(refusal.is_some_and(|error| error.code().code() == "55000"), "who slept too long can do no harm");
    Ok(())
}

fn requests(screen: &mut Screen, world: &mut World) -> Result<()> {
    screen.say("Requests: a front end records them, back ends work them off, each entity in one hand.");
    let mut front = world.server.connect(SHARED, WORKER)?;
    for (entity, kind) in [("ann", "create"), ("ann", "update"), ("bob", "create"), ("ann", "update")] {
        front.execute("SELECT claims.enqueue_request('demo', $1, $2)", &[&entity, &kind])?;
    }
    let mut dying = world.server.connect(SHARED, WORKER)?;
    dying.batch_execute("BEGIN")?;
    let lost = take(&mut dying, Uuid::new_v4())?;
    screen.label("back end 1", &format!("takes {}, and dies", lost.join(", ")));
    let pid: i32 = dying.query_one("SELECT pg_backend_pid()", &[])?.get(0);
    drop(dying);
    // Its server process ends soon, and with it its locks.
    let alive = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}");
    while world.count(&alive)? > 0 {
        sleep(Duration::from_millis(10));
    }
    let mut back = world.server.connect(SHARED, WORKER)?;
    let mut done = Vec::new();
    loop {
        let process = Uuid::new_v4();
        back.batch_execute("BEGIN")?;
        let taken = take(&mut back, process)?;
        if taken.is_empty() {
            back.batch_execute("COMMIT")?;
            break;
        }
        for request in &taken {
            let (kind, entity) = request.split_once(' ').unwrap_or_default();
            back.execute("INSERT INTO demo_done VALUES ($1, $2)", &[&entity, &kind])?;
        }
        back.execute("SELECT claims.settle_requests($1)", &[&process])?;
        back.batch_execute("COMMIT")?;
        screen.label("back end 2", &format!("does {}", taken.join(", ")));
        done.extend(taken);
    }
    screen.expect(lost == ["create ann"] && done.first() == lost.first(), "what the dead one had comes first again");
    let effects = world.count("SELECT count(*) FROM demo_done")?;
    screen.expect(done.len() == 4 && effects == 4, "a create before its updates, updates together, each done once");
    Ok(())
}

/// Returns keys with their tokens, by key.
fn acquire(client: &mut Client, claimant: &str, ttl: &str, most: i32) -> Result<Vec<(String, i64)>> {
    let rows = client.query(
        "SELECT key, token FROM claims.acquire_expiring('service', $1, $2::text::interval, $3) ORDER BY key",
        &[&claimant, &ttl, &most],
    )?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

fn names(held: &[(String, i64)]) -> String {
    held.iter().map(|(key, token)| format!("{key} (token {token})")).collect::<Vec<_>>().join(", ")
}

fn take(client: &mut Client, process: Uuid) -> Result<Vec<String>> {
    let rows =
        client.query("SELECT request_type, entity FROM claims.take_requests('demo', $1) ORDER BY id", &[&process])?;
    Ok(rows.iter().map(|row| format!("{} {}", row.get::<_, String>(0), row.get::<_, String>(1))).collect())
}
