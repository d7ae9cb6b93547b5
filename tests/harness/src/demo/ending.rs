//! Chapter 12: no lease remains, and no data is inconsistent.

use super::cast::{CELLS, World};
use super::home;
use super::screen::{Screen, thousands};
use anyhow::Result;

pub fn tell(screen: &mut Screen, world: &mut World) -> Result<()> {
    screen.say("The claims that the shared database keeps now:");
    let mut rows = Vec::new();
    for member in &CELLS {
        let claims = world.count(&format!("SELECT count(*) FROM claims.claims WHERE creator_id = {}", member.id))?;
        rows.push(vec![member.name.to_string(), thousands(claims)]);
    }
    screen.table(&["cell", "claims"], &rows);
    let leases = world.count("SELECT count(*) FROM claims.claim_leases")?;
    let (mut tracked, mut saved) = (0, Vec::new());
    for member in &CELLS {
        let mut home = member.home()?.admin(member.database)?;
        tracked += home.query("SELECT FROM claims.cells_outstanding_leases", &[])?.len();
        saved.extend(home::users(&mut home)?.into_iter().map(|name| (name, member.id)));
    }
    saved.sort();
    screen.expect(leases == 0 && tracked == 0, "no lease is outstanding, and no cell's database tracks one");
    let claimed = world.admin.query(
        "SELECT bucket_value, creator_id FROM claims.claims JOIN claims.bucket_types t ON t.id = bucket_type \
         WHERE t.name = 'USERNAMES' AND status = 1 ORDER BY bucket_value",
        &[],
    )?;
    let claimed: Vec<(String, i64)> = claimed.iter().map(|row| (row.get(0), row.get(1))).collect();
    screen.expect(saved == claimed, "every user who is saved is claimed, by the cell that saved it, and nobody else");
    let violations = world.admin.query("SELECT c::text FROM claims.check() AS c", &[])?;
    for row in &violations {
        screen.say(&row.get::<_, String>(0));
    }
    screen.expect(violations.is_empty(), "claims.check() finds nothing");
    Ok(())
}
