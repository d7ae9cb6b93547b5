//! Judges a case after the lie: the saved rows, whether the session continues, and whether honest answers restore
//! order.

use anyhow::Result;

use super::case::{Case, HONESTLY, Outcome};
use super::home::TAKEN;
use super::laws::{Breach, Law};
use super::process::wait_until_gone;
use super::session::{End, Session};
use super::ways::Before;

/// The saved rows of a case that a service must know of, without those of `Before::Unseen`.
const SAVED: &str =
    "SELECT coalesce(string_agg(name, ' '), '') FROM routes WHERE name LIKE '{name}%' AND name NOT LIKE '%-unseen'";
/// Its tracked leases, of sessions that may have ended since.
const TRACKED: &str = "SELECT coalesce(string_agg(uuid::text, ' '), '') FROM claims.cells_outstanding_leases";
const CLAIMED: &str =
    "SELECT coalesce(string_agg(bucket_value || ' ' || status || ' ' || coalesce(lease_uuid::text, '-'), ','), '')
    FROM claims.records WHERE cell_id = {cell} AND bucket_value LIKE '{name}%'";

const ROWS: &str = "SELECT coalesce(string_agg(name || ' ' || id, ',' ORDER BY name COLLATE \"C\"), '') FROM routes";
const CLAIMS: &str =
    "SELECT coalesce(string_agg(bucket_value || ' ' || source_id, ',' ORDER BY bucket_value COLLATE \"C\"), '')
    FROM claims.records WHERE cell_id = {cell}";
const OUTSTANDING: &str = "SELECT count(*) FROM claims.claim_leases WHERE creator_id = {cell}";
const CORRECT: &str = "SELECT claims.verify({cell}, 'service', 'RAILS_TABLE_ROUTES', recent => '0', correct => true)";

/// Checks that every saved row has its claim, and that a lease which holds such a claim is tracked.
pub fn judge_data(case: &Case, outcome: &mut Outcome) -> Result<()> {
    let (cell, service) = (case.home.admin()?, case.home.field.at_service()?);
    let ask = |session: &Session, sql: &str| Ok::<_, anyhow::Error>(session.value(&case.sql(sql))?.unwrap_or_default());
    let (saved, tracked, claimed) = (ask(&cell, SAVED)?, ask(&cell, TRACKED)?, ask(&service, CLAIMED)?);
    for name in saved.split_whitespace() {
        let claim = claimed.split(',').map(|claim| claim.split(' ').collect::<Vec<_>>()).find(|claim| claim[0] == name);
        match claim.as_deref() {
            None => outcome.breaches.push(Breach::new(Law::NoWrongCommit, "a row is saved, and nobody has claimed it")),
            Some([_, status, lease]) if *status != "ACTIVE" && !tracked.contains(lease) => {
                outcome
                    .breaches
                    .push(Breach::new(Law::NothingForgotten, format!("{status} by a lease that is not tracked")));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Checks that a session with a thread that computes is of use, does not call its service, and can end; and that a new
/// session does all that it may.
pub fn judge_computing_session(case: &Case, session: Session, outcome: &mut Outcome) -> Result<()> {
    let mut must = |sql: &str, is_right: fn(&End) -> bool| {
        let end = session.run(&case.sql(sql), HONESTLY).unwrap_or(End::Lost("no answer".into()));
        if !is_right(&end) {
            outcome.breaches.push(Breach::new(Law::SessionLives, format!("while it computes: {sql}: {end}")));
        }
    };
    must("ROLLBACK; SELECT 1", |end| matches!(end, End::Done(Some(value)) if value == "1"));
    must(
        "INSERT INTO routes (name) VALUES ('{name}-computing')",
        |end| matches!(end, End::Refused { code, .. } if code == "08001"),
    );
    let pid = session.pid;
    drop(session);
    if wait_until_gone(pid, HONESTLY).is_none() {
        outcome.breaches.push(Breach::new(Law::NoHang, "the process does not end while it computes"));
    }
    judge_session(case, &case.home.app()?, outcome);
    Ok(())
}

/// Checks that the session answers, saves what it may, and is refused what it may not. The answers must be those to
/// these calls, not to earlier ones.
pub fn judge_session(case: &Case, session: &Session, outcome: &mut Outcome) {
    let mut must = |law: Law, sql: &str, is_right: fn(&End) -> bool| {
        let end = session.run_patiently(&case.sql(sql), HONESTLY).unwrap_or(End::Lost("no answer".into()));
        if !is_right(&end) {
            outcome.breaches.push(Breach::new(law, format!("{sql}: {end}")));
        }
    };
    must(Law::SessionLives, "ROLLBACK; SELECT 1", |end| matches!(end, End::Done(Some(value)) if value == "1"));
    must(Law::SessionLives, "SET claims.service_timeout = '20s'", End::is_done);
    must(Law::SessionLives, "INSERT INTO routes (name) VALUES ('{name}-after')", End::is_done);
    let taken = format!("INSERT INTO routes (name) VALUES ('{TAKEN}')");
    must(Law::NoOtherAnswer, &taken, |end| matches!(end, End::Refused { code, .. } if code == "23505"));
    must(Law::SessionLives, "INSERT INTO routes (name) VALUES ('{name}-last')", End::is_done);
}

/// Checks that the sequence draws ids of ranges that the service has given to this cell, and none twice.
pub fn judge_ids(case: &Case, outcome: &mut Outcome) -> Result<()> {
    let (admin, service) = (case.home.admin()?, case.home.field.at_service()?);
    let mut breach = |how: String| outcome.breaches.push(Breach::new(Law::OnlyOwnIds, how));
    match admin.run_patiently("INSERT INTO drawn SELECT nextval('forged_ids') FROM generate_series(1, 2)", HONESTLY) {
        Some(End::Done(_)) => {}
        // It has no ids yet, or none left.
        Some(End::Refused { code, .. }) if code == "2200H" => {}
        end => breach(end.map_or("no answer".into(), |end| end.to_string())),
    }
    // A sequence that has no ids has the least ones of its type as its limits.
    let has = "SELECT coalesce(range_agg(r), '{}')::text FROM (
                   SELECT unnest(ARRAY[id_range, next_range]) AS r FROM claims.id_sequences
                   UNION ALL SELECT int8range(id, id, '[]') FROM drawn
                   UNION ALL SELECT int8range(seqmin, seqmax, '[]') FROM pg_sequence
                              WHERE seqrelid = 'forged_ids'::regclass AND seqmin > -9223372036854775808) ranges";
    let has = admin.value(has)?.unwrap_or_default();
    let may = format!(
        "SELECT coalesce(range_agg(id_range), '{{}}') @> '{has}'::int8multirange FROM claims.id_ranges WHERE cell_id = {}",
        case.home.cell
    );
    if service.value(&may)?.as_deref() != Some("t") {
        breach(format!("the cell uses {has}, which was not leased to it"));
    }
    Ok(())
}

/// Checks that recovery, and verification if something was damaged, restore order, and that the service's state can be
/// read.
pub fn judge_order(case: &Case, outcome: &mut Outcome) -> Result<()> {
    let (admin, service) = (case.home.admin()?, case.home.field.at_service()?);
    let mut run = |sql: &str| match admin.run_patiently(&case.sql(sql), HONESTLY) {
        Some(End::Done(value)) => value,
        end => {
            let end = end.map_or("no answer".into(), |end| end.to_string());
            outcome.breaches.push(Breach::new(Law::OrderAfterwards, format!("{sql}: {end}")));
            None
        }
    };
    run("SELECT count(*), max(last_error) FROM claims.service_state");
    // The second pass rolls back what the first one fenced.
    let passes = [0, 1].map(|_| run("SELECT pending + orphaned FROM claims.reconcile({cell}, 'service', '0')"));
    if case.way.before.iter().any(|step| matches!(step, Before::Unseen(_))) {
        run(CORRECT);
    }
    let ask = |session: &Session, sql: &str| Ok::<_, anyhow::Error>(session.value(&case.sql(sql))?.unwrap_or_default());
    let (rows, claims) = (ask(&admin, ROWS)?, ask(&service, CLAIMS)?);
    let left = (ask(&service, OUTSTANDING)?, ask(&admin, "SELECT count(*) FROM claims.cells_outstanding_leases")?);
    if passes[1].as_deref() != Some("0") || rows != claims || left != ("0".into(), "0".into()) {
        let differing = difference(&rows, &claims);
        let how = format!("rows and claims differ in {differing:?}, {} outstanding, {} tracked", left.0, left.1);
        outcome.breaches.push(Breach::new(Law::OrderAfterwards, how));
        // Cleans up for the next cases.
        let unseen = format!("SET session_replication_role = replica; DELETE FROM routes WHERE name = '{TAKEN}'");
        admin.run(&unseen, HONESTLY);
        admin.run("RESET session_replication_role", HONESTLY);
        admin.run(&case.sql(CORRECT), HONESTLY);
        admin.run("DELETE FROM claims.cells_outstanding_leases", HONESTLY);
    }
    Ok(())
}

/// Returns a few items that only one of two lists has.
fn difference<'t>(one: &'t str, other: &'t str) -> Vec<&'t str> {
    let only = |list: &'t str, other: &'t str| {
        list.split(',').filter(move |item| !item.is_empty() && !other.split(',').any(|known| known == *item))
    };
    only(one, other).chain(only(other, one)).take(4).collect()
}
