//! Chapter 1: the extension in a fresh database, two cells with roles of their own.

use super::cast::World;
use super::screen::Screen;
use anyhow::Result;

pub fn tell(screen: &mut Screen, world: &mut World) -> Result<()> {
    let versions = world.admin.query_one(
        "SELECT current_setting('server_version'), extversion, current_setting('fsync'), \
         current_setting('synchronous_commit') FROM pg_extension WHERE extname = 'claims'",
        &[],
    )?;
    let [server, extension, fsync, sync]: [String; 4] = std::array::from_fn(|i| versions.get(i));
    screen.say(
        "A cell is an installation of an application with a database of its own. A name that must be unique \
         in all cells together is claimed in a database that they share, under a role that each cell has for \
         itself. The cells have no right to touch the tables; they call functions.",
    );
    let rows = world.admin.query("SELECT cell_id::text, name, role::text FROM claims.cells ORDER BY cell_id", &[])?;
    let rows: Vec<Vec<String>> =
        rows.iter().map(|r| (0..3).map(|i| r.get::<_, Option<String>>(i).unwrap_or_default()).collect()).collect();
    screen.table(&["cell", "name", "role"], &rows);
    screen.say(&format!("PostgreSQL {server}, claims {extension}, fsync {fsync}, synchronous_commit {sync}."));
    Ok(())
}
