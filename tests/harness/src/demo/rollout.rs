//! Chapter 10: two applications with rows from before go from nothing to enforced names, while they save.

use super::cast::{CELLS, Member, NORTH, SOUTH, World};
use super::home::{self, APP, KEEPER};
use super::screen::{Screen, thousands};
use anyhow::{Context, Result, bail};
use postgres::Client;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// Accounts that each application has from before.
const BEFORE: u64 = 5000;

/// Addresses that both have, as each of them writes it, and in canonical form.
const BOTH: [([&str; 2], &str); 2] = [
    (["ada@example.com", "Ada@Example.COM"], "ada@example.com"),
    (["grace@b\u{fc}cher.example", "grace@xn--bcher-kva.example"], "grace@xn--bcher-kva.example"),
];

/// Pause of an application between two saves.
const PAUSE: Duration = Duration::from_millis(4);

const DECLARE: &str = "SELECT claims.claim_attribute('accounts', 'email', 'EMAILS', 'USER', 'id', 'RAILS_TABLE_EMAILS'), \
                       claims.set_enforcement('accounts', 'email', 'off', 'declared')";
const PROFILE: &str =
    "SELECT * FROM claims.set_profile('EMAILS', 'email', 'as mail servers compare them', dry_run => false)";

/// The saves of the applications while the chapter is told.
#[derive(Default)]
struct Traffic {
    has_ended: AtomicBool,
    saved: AtomicU64,
    failed: AtomicU64,
}

pub fn tell(screen: &mut Screen, world: &mut World) -> Result<()> {
    for cell in &CELLS {
        make_accounts(cell)?;
    }
    screen.say(&format!(
        "Both applications get e-mail addresses, which nobody claims yet: {} accounts in each cell. Two addresses are in both \
         cells, and nobody knows. From here on both applications save accounts all the time. docs/rollout.md has the steps.",
        thousands(BEFORE + 2)
    ));
    let traffic = Traffic::default();
    thread::scope(|scope| {
        let writers = CELLS.map(|cell| {
            let (traffic, number) = (&traffic, cell.id);
            scope.spawn(move || write(traffic, if number == NORTH.id { &NORTH } else { &SOUTH }))
        });
        let told = Rollout { screen, world, traffic: &traffic, told: 0 }.steps();
        traffic.has_ended.store(true, Relaxed);
        for writer in writers {
            match writer.join() {
                Ok(wrote) => wrote?,
                Err(_) => bail!("an application panicked"),
            }
        }
        told
    })?;
    let [saved, failed] = [&traffic.saved, &traffic.failed].map(|count| count.load(Relaxed));
    screen.expect(
        failed == 0 && saved > 0,
        &format!(
            "the applications have saved {} accounts meanwhile, and none of these saves has failed",
            thousands(saved)
        ),
    );
    for cell in &CELLS {
        home::settled(cell, world)?;
    }
    correct(screen)?;
    owners(screen, world)
}

/// Claims what was saved without its name: in mode `observe` a save does not wait longer than `claims.observe_timeout`.
fn correct(screen: &mut Screen) -> Result<()> {
    let mut corrected = 0;
    for cell in &CELLS {
        let verify = "SELECT corrected FROM claims.verify($1, 'claims_service', 'RAILS_TABLE_EMAILS', recent => '0', correct => true)";
        corrected += cell.at_home(KEEPER)?.query_one(verify, &[&cell.id])?.get::<_, i64>(0);
    }
    if corrected > 0 {
        screen.say(&format!(
            "Verification has claimed {corrected} addresses of accounts that were saved, while addresses were only observed, before the \
             shared database answered."
        ));
        screen.blank();
    }
    Ok(())
}

/// Creates an application's table, with its rows from before.
fn make_accounts(cell: &Member) -> Result<()> {
    let mut home = cell.home()?.admin(cell.database)?;
    home.batch_execute(&format!(
        "CREATE TABLE accounts (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, email text NOT NULL UNIQUE); \
         GRANT SELECT, INSERT, UPDATE, DELETE ON accounts TO {APP}, {KEEPER}; \
         INSERT INTO accounts (email) SELECT format('user-%s@{name}.example', n) FROM generate_series(1, {BEFORE}) n",
        name = cell.name
    ))?;
    for (spellings, _) in BOTH {
        home.execute("INSERT INTO accounts (email) VALUES ($1)", &[&spellings[side(cell)]])?;
    }
    Ok(home.batch_execute("ANALYZE accounts")?)
}

fn side(cell: &Member) -> usize {
    usize::from(cell.id == SOUTH.id)
}

/// Saves accounts until the chapter ends: new ones, and each now and then with another address.
fn write(traffic: &Traffic, cell: &Member) -> Result<()> {
    let mut app = cell.at_home(APP)?;
    for number in 1.. {
        if traffic.has_ended.load(Relaxed) {
            break;
        }
        let sql = match number % 3 {
            0 => format!(
                "UPDATE accounts SET email = 'Moved-{number}@{name}.example' WHERE email = 'user-{number}@{name}.example'",
                name = cell.name
            ),
            _ => format!("INSERT INTO accounts (email) VALUES ('New-{number}@{}.example')", cell.name),
        };
        let saved = app.batch_execute(&sql).is_ok();
        (if saved { &traffic.saved } else { &traffic.failed }).fetch_add(1, Relaxed);
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// The steps of docs/rollout.md.
struct Rollout<'r> {
    screen: &'r mut Screen,
    world: &'r mut World,
    traffic: &'r Traffic,
    /// Number of saves that were told of.
    told: u64,
}

impl Rollout<'_> {
    fn steps(&mut self) -> Result<()> {
        self.prepare()?;
        self.observe()?;
        self.import_north()?;
        self.decide()?;
        self.import_south()?;
        self.enforce()
    }

    /// Prints the title of a step, and how many saves there were during the one before.
    fn step(&mut self, title: &str) {
        let saved = self.traffic.saved.load(Relaxed);
        if self.told > 0 {
            self.screen.label("", &format!("({} saves meanwhile)", thousands(saved - self.told)));
        }
        self.told = saved.max(1);
        self.screen.blank();
        self.screen.example(title);
    }

    /// Runs a statement in a cell as one of its roles. A 1 that is a cell's number becomes that of this cell.
    fn run(cell: &Member, role: Option<&str>, sql: &str) -> Result<()> {
        let mut client = match role {
            Some(role) => cell.at_home(role)?,
            None => cell.home()?.admin(cell.database)?,
        };
        Ok(client.batch_execute(&sql.replace("(1, ", &format!("({}, ", cell.id)))?)
    }

    fn prepare(&mut self) -> Result<()> {
        self.step("1 and 2: a profile for addresses, and a declaration that is turned off");
        self.screen.label("SQL", PROFILE);
        self.screen.label("SQL", DECLARE);
        self.world.admin.batch_execute(PROFILE)?;
        for cell in &CELLS {
            Self::run(cell, None, PROFILE)?;
            Self::run(cell, None, DECLARE)?;
        }
        Ok(())
    }

    fn observe(&mut self) -> Result<()> {
        self.step("3: observe. Saves claim what they can, and none fails because of claims");
        let sql = "SELECT claims.set_enforcement('accounts', 'email', 'observe', 'a first look')";
        self.screen.label("SQL", sql);
        for cell in &CELLS {
            Self::run(cell, None, sql)?;
        }
        // A name of the other cell's that is saved now is counted, and saved.
        let mut north = NORTH.at_home(APP)?;
        let email = "both@example.com";
        self.claimed(&NORTH, &mut north, email)?;
        let mut south = SOUTH.at_home(APP)?;
        south.execute("INSERT INTO accounts (email) VALUES ($1)", &[&email])?;
        south.execute("DELETE FROM accounts WHERE email = $1", &[&email])?;
        self.screen.expect(true, "south saves an address that north has claimed, as before");
        Ok(())
    }

    /// Saves an address until it is claimed: on a busy machine the service may be too late for a save that is only observed.
    fn claimed(&mut self, cell: &Member, app: &mut Client, email: &str) -> Result<()> {
        for _ in 0..100 {
            app.execute("INSERT INTO accounts (email) VALUES ($1)", &[&email])?;
            if self.world.count(&format!(
                "SELECT count(*) FROM claims.claims WHERE creator_id = {} AND bucket_value = '{email}'",
                cell.id
            ))? > 0
            {
                return Ok(());
            }
            app.execute("DELETE FROM accounts WHERE email = $1", &[&email])?;
        }
        bail!("{}'s saves claim nothing", cell.name)
    }

    fn import_north(&mut self) -> Result<()> {
        self.step("4 and 5: north imports its rows from before");
        let rows = self.import(&NORTH)?;
        let claims = self.claims(&NORTH)?;
        self.screen.expect(
            rows >= BEFORE && claims >= BEFORE,
            &format!("{} rows were read, and {} addresses are north's now", thousands(rows), thousands(claims)),
        );
        Ok(())
    }

    /// Claims a cell's rows from before, and what observed saves have missed. Returns the number of rows.
    fn import(&mut self, cell: &Member) -> Result<u64> {
        let import = "CALL claims.import_claims(1, 'claims_service', 'RAILS_TABLE_EMAILS', rows_per_second => 5000)";
        self.screen.label("SQL", import);
        Self::run(cell, Some(KEEPER), import)?;
        let verify =
            "SELECT * FROM claims.verify(1, 'claims_service', 'RAILS_TABLE_EMAILS', recent => '0', correct => true)";
        self.screen.label("SQL", verify);
        Self::run(cell, Some(KEEPER), verify)?;
        let sql =
            "SELECT rows_done FROM claims.imports WHERE source_type = 'RAILS_TABLE_EMAILS' AND state = 'finished'";
        let mut keeper = cell.at_home(KEEPER)?;
        let row = keeper.query_opt(sql, &[])?.with_context(|| format!("{}'s import has not finished", cell.name))?;
        Ok(row.get::<_, i64>(0).try_into()?)
    }

    fn claims(&mut self, cell: &Member) -> Result<u64> {
        self.world
            .count(&format!("SELECT count(*) FROM claims.claims WHERE creator_id = {} AND bucket_type = 5", cell.id))
    }

    /// Shows what collides, and renames a row in each cell.
    fn decide(&mut self) -> Result<()> {
        self.step("4: before south does the same, it reads what would collide");
        let preview = "SELECT * FROM claims.preview_import(2, 'claims_service', 'RAILS_TABLE_EMAILS')";
        self.screen.label("SQL", preview);
        let found = self.collisions()?;
        let rows: Vec<Vec<String>> = found.iter().map(|row| row.to_vec()).collect();
        self.screen.table(&["address", "south's row", "reason", "holder"], &rows);
        let known: Vec<&str> = found.iter().map(|[address, _, _, _]| address.as_str()).collect();
        let wanted: Vec<&str> = BOTH.iter().map(|(_, canonical)| *canonical).collect();
        let all_held = found.iter().all(|[_, _, reason, holder]| reason == "held_by_other" && holder == NORTH.name);
        self.screen
            .expect(known == wanted && all_held, "it finds both addresses, however they are spelled, and who has them");
        self.screen.say("People decide: ada stays in north, and grace in south. The others get another address.");
        for (cell, (spellings, _)) in [(&SOUTH, BOTH[0]), (&NORTH, BOTH[1])] {
            let mut app = cell.at_home(APP)?;
            let sql = "UPDATE accounts SET email = 'second-' || email WHERE email = $1";
            app.execute(sql, &[&spellings[side(cell)]])?;
        }
        // A rename that was too late for its names is made good here.
        Self::run(
            &NORTH,
            Some(KEEPER),
            "SELECT claims.verify(1, 'claims_service', 'RAILS_TABLE_EMAILS', recent => '0', correct => true)",
        )?;
        let left = self.collisions()?.len();
        self.screen.expect(left == 0, "nothing would collide any more");
        Ok(())
    }

    /// Returns what south could not claim: address, row, reason and holder, in the order of the addresses.
    fn collisions(&mut self) -> Result<Vec<[String; 4]>> {
        let sql = "SELECT bucket_value, source_id, reason, holder_cell_id \
                     FROM claims.preview_import(2, 'claims_service', 'RAILS_TABLE_EMAILS') ORDER BY bucket_value";
        let rows = SOUTH.at_home(KEEPER)?.query(sql, &[])?;
        let holder = |id: Option<i64>| CELLS.iter().find(|cell| Some(cell.id) == id).map_or("", |cell| cell.name);
        Ok(rows.iter().map(|row| [row.get(0), row.get(1), row.get(2), holder(row.get(3)).to_string()]).collect())
    }

    fn import_south(&mut self) -> Result<()> {
        self.step("5: south imports its rows from before");
        let rows = self.import(&SOUTH)?;
        let claims = self.claims(&SOUTH)?;
        self.screen.expect(
            rows >= BEFORE && claims >= BEFORE,
            &format!("{} rows were read, and {} addresses are south's now", thousands(rows), thousands(claims)),
        );
        Ok(())
    }

    fn enforce(&mut self) -> Result<()> {
        self.step("6: enforce, for one address in a hundred, for one in ten, for all");
        for share in ["'one percent', 1", "'ten percent', 10", "'all'"] {
            let sql = format!("SELECT claims.set_enforcement('accounts', 'email', 'enforce', {share})");
            self.screen.label("SQL", &sql);
            for cell in &CELLS {
                Self::run(cell, None, &sql)?;
            }
        }
        self.screen.blank();
        self.screen.say("South's application, which knows nothing of all this, saves an account with ada's address:");
        self.screen.blank();
        let insert = "INSERT INTO accounts (email) VALUES ('ADA@example.com')";
        self.screen.label("SQL", insert);
        let failure = SOUTH.at_home(APP)?.batch_execute(insert).err().map(crate::failure::Failure::from);
        let refusal = failure.and_then(crate::failure::Failure::refusal).context("it is not refused")?;
        home::show(self.screen, &refusal);
        self.screen.expect(
            refusal.code == "23505" && refusal.message.contains("unique constraint"),
            "it gets the error of a unique index, for a row that only the other cell has",
        );
        self.step("And back, at once, if something goes wrong");
        let back = "SELECT claims.set_enforcement('accounts', 'email', 'observe', 'an emergency')";
        self.screen.label("SQL", back);
        Self::run(&SOUTH, None, back)?;
        let mut app = SOUTH.at_home(APP)?;
        let saved = app.batch_execute(insert).is_ok();
        self.screen.expect(saved, "the same account is saved now: conflicts are counted, and refuse nothing");
        app.batch_execute("DELETE FROM accounts WHERE email = 'ADA@example.com'")?;
        Self::run(&SOUTH, None, "SELECT claims.set_enforcement('accounts', 'email', 'enforce', 'all')")?;
        self.screen.blank();
        Ok(())
    }
}

/// Shows who has the addresses that were in both cells, and that each account's address is owned by its cell.
fn owners(screen: &mut Screen, world: &mut World) -> Result<()> {
    let (mut saved, mut clean) = (Vec::new(), true);
    for cell in &CELLS {
        let mut keeper = cell.at_home(KEEPER)?;
        let verify = "SELECT missing, different, extra, held_by_other \
                        FROM claims.verify($1, 'claims_service', 'RAILS_TABLE_EMAILS', recent => '0')";
        let row = keeper.query_one(verify, &[&cell.id])?;
        clean &= (0..4).all(|column| row.get::<_, i64>(column) == 0);
        let rows = keeper.query("SELECT claims.canonical_form('email', email) FROM accounts", &[])?;
        saved.extend(rows.into_iter().map(|row| (row.get::<_, String>(0), cell.id)));
    }
    saved.sort();
    let claimed = world.admin.query(
        "SELECT bucket_value, creator_id FROM claims.claims WHERE bucket_type = 5 AND status = 1 ORDER BY bucket_value COLLATE \"C\"",
        &[],
    )?;
    let claimed: Vec<(String, i64)> = claimed.iter().map(|row| (row.get(0), row.get(1))).collect();
    screen.expect(
        clean && saved == claimed,
        &format!("verification is clean, and each of {} addresses has one owner", thousands(claimed.len() as u64)),
    );
    Ok(())
}
