//! Chapter 6: nothing is left over and nothing contradicts itself.

use super::cast::{CELLS, World};
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
    screen.expect(leases == 0, "no lease is outstanding");
    let violations = world.admin.query("SELECT c::text FROM claims.check() AS c", &[])?;
    for row in &violations {
        screen.say(&row.get::<_, String>(0));
    }
    screen.expect(violations.is_empty(), "claims.check() finds nothing");
    Ok(())
}
