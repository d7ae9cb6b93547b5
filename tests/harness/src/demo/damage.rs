//! Chapter 8: somebody changes the table of claims, and verification finds and repairs it.

use super::cast::{NORTH, World};
use super::home;
use super::screen::Screen;
use anyhow::Result;

pub fn tell(screen: &mut Screen, world: &mut World) -> Result<()> {
    screen.say("A superuser of the shared database lays hands on the claims of two users of north:");
    screen.blank();
    let damage = [
        "DELETE FROM claims.claims WHERE bucket_type = 4 AND bucket_value = 'ann'",
        "UPDATE claims.claims SET subject_id = '4711' WHERE bucket_type = 4 AND bucket_value = 'bob'",
    ];
    let mut changed = 0;
    for sql in damage {
        screen.label("SQL", sql);
        changed += world.admin.execute(sql, &[])?;
    }
    screen.blank();
    screen.say(
        "Verification compares what north's rows call for with what north has claimed. It runs three times: to \
         report, with correct => true, and once more:",
    );
    let reported = home::verify(&NORTH, false)?;
    let corrected = home::verify(&NORTH, true)?;
    let again = home::verify(&NORTH, false)?;
    let rows = [reported.cells("report"), corrected.cells("correct"), again.cells("once more")];
    screen.table(&[&["run"], &home::VERIFIED[..]].concat(), &rows);
    screen.expect(
        changed == 2 && reported.found() == [1, 1, 0, 0],
        "it finds the claim that is missing and the one that differs",
    );
    screen.expect(corrected.found() == [1, 1, 0, 2], "it puts both right");
    screen.expect(again.found() == [0, 0, 0, 0] && again.checked > 0, "then there is nothing to find");
    let mut north = NORTH.home()?.admin(NORTH.database)?;
    let ids = north.query("SELECT id::text FROM users WHERE username IN ('ann', 'bob') ORDER BY username", &[])?;
    let subjects = world.admin.query(
        "SELECT subject_id FROM claims.claims WHERE bucket_type = 4 AND bucket_value IN ('ann', 'bob') \
         AND creator_id = 1 AND status = 1 ORDER BY bucket_value",
        &[],
    )?;
    let text = |rows: &[postgres::Row]| rows.iter().map(|row| row.get(0)).collect::<Vec<String>>();
    screen.expect(
        ids.len() == 2 && text(&ids) == text(&subjects),
        "both claims are north's again, and name the right users",
    );
    Ok(())
}
