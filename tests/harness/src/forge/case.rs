//! A case: a lie at one call of a cell, and the cell's reaction.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::CONNECT;
use super::aftermath;
use super::home::Home;
use super::lag::Lag;
use super::laws::{Allowance, Breach, Law, MEMORY, is_proper};
use super::lie::{Fault, Lie};
use super::process::{Crash, peak_memory};
use super::service::Order;
use super::session::{End, Ended, EndedBy, HONEST_LIMIT, Session};
use super::ways::{Before, Kind, Limit, Way};
use super::worker;

/// How long a call that may take a minute runs before it is ended, in addition to the time of a save.
const A_WHILE: Duration = Duration::from_millis(600);
/// How long a late or disobedient call is watched, to see whether it ends at all.
const MUCH_LATER: Duration = Duration::from_secs(3);

/// How often a call may ask for a page that ends where it began.
const MOST_PAGES: usize = 4;

pub struct Case<'c> {
    pub home: &'c Home<'c>,
    pub way: &'static Way,
    pub lie: &'static Lie,
    /// A name that no other case uses.
    pub name: String,
    pub lag: &'c Lag,
}

/// The result of a case.
#[derive(Debug, Default)]
pub struct Outcome {
    pub breaches: Vec<Breach>,
    /// Memory beyond what the process had before.
    pub memory: u64,
    /// How late the call was.
    pub late: Duration,
}

/// Another process of the server has crashed or was killed, so the case cannot be judged.
pub struct Disturbed;

/// A process that was lied to, before its effects are judged.
pub struct Tried {
    pub pid: i32,
    /// The session, if it can be used.
    pub session: Option<Session>,
    pub outcome: Outcome,
}

impl Case<'_> {
    pub fn run(&self) -> Result<Result<Outcome, Disturbed>> {
        let field = self.home.field;
        let before = field.log.crashes()?.len();
        let tried = field.while_up(|| {
            let tried = match self.way.session {
                Kind::Worker(name) => worker::try_it(self, name),
                _ => self.try_session(),
            };
            self.home.forge.be_honest();
            tried
        });
        let has_ended = |tried: &Tried| tried.outcome.has_broken(Law::SessionLives) || self.lie.computes;
        let is_odd = tried.as_ref().map_or(true, has_ended);
        let crashes = self.crashes_since(before, is_odd)?;
        let tried = match tried {
            tried if crashes.is_empty() => tried?,
            Ok(tried) if tried.has_crashed(&crashes) => tried.with_crash(&crashes),
            _ => {
                field.wait_for_cell()?;
                return Ok(Err(Disturbed));
            }
        };
        if tried.outcome.has_broken(Law::NoHang) {
            field.kill(tried.pid)?;
        }
        let before = field.log.crashes()?.len();
        let pid = tried.pid;
        let outcome = field.while_up(|| self.judge_rest(tried));
        let crashes = self.crashes_since(before, outcome.is_err() || self.lie.computes)?;
        if crashes.is_empty() {
            return outcome.map(Ok);
        }
        field.wait_for_cell()?;
        match crashes.iter().find(|crash| crash.pid == Some(pid)) {
            Some(crash) => Ok(Ok(Outcome::of(Breach::new(Law::NoCrash, format!("at its end: {}", crash.line))))),
            None => Ok(Err(Disturbed)),
        }
    }

    fn judge_rest(&self, tried: Tried) -> Result<Outcome> {
        let Tried { session, mut outcome, .. } = tried;
        if let Kind::Worker(_) = self.way.session {
            worker::judge_passes(self, &mut outcome)?;
        }
        aftermath::judge_data(self, &mut outcome)?;
        match session {
            Some(session) if self.lie.computes => {
                aftermath::judge_computing_session(self, session, &mut outcome)?;
            }
            Some(session) => aftermath::judge_session(self, &session, &mut outcome),
            None => {}
        }
        aftermath::judge_order(self, &mut outcome)?;
        aftermath::judge_ids(self, &mut outcome)?;
        Ok(outcome)
    }

    /// Returns the crashes in the server's log, which explains a lost connection a little later.
    fn crashes_since(&self, before: usize, is_wanted: bool) -> Result<Vec<Crash>> {
        let since = Instant::now();
        loop {
            let crashes = self.home.field.log.crashes()?.split_off(before);
            if !crashes.is_empty() || !is_wanted || since.elapsed() > A_WHILE {
                return Ok(crashes);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn sql(&self, text: &str) -> String {
        self.home.with_cell(text).replace("{name}", &self.name)
    }

    fn try_session(&self) -> Result<Tried> {
        let began = Instant::now();
        let prepared = self.home.app()?;
        let honest_call = self.prepare(&prepared)?;
        let session = if self.way.session == Kind::Fresh { self.home.app()? } else { prepared };
        session.value(&format!("SET claims.service_timeout = '{}ms'", self.lie.timeout().as_millis()))?;
        let memory_before = peak_memory(session.pid).context("no process")?;
        self.home.forge.lie(Order { lie: self.lie, call: self.way.call });
        let mut outcome = Outcome::default();
        let mut ended = Ended { end: End::Done(None), by: EndedBy::Itself, took: Duration::ZERO };
        for act in self.way.acts {
            ended = self.act(&session, &self.sql(act), honest_call, began, &mut outcome);
            if !ended.end.is_done() {
                break;
            }
        }
        let Ended { end, by, .. } = ended;
        if let Some(memory) = peak_memory(session.pid) {
            self.judge_memory(memory.saturating_sub(memory_before), &mut outcome);
        }
        let told = self.home.forge.told();
        if told == 0 {
            outcome.breaches.push(Breach::new(Law::Told, format!("never told, and the call ended with {end}")));
        }
        if self.lie.fault == Fault::Pages && told > MOST_PAGES {
            outcome.breaches.push(Breach::new(Law::NoHang, format!("it asked for one page {told} times")));
        }
        self.home.forge.be_honest();
        if end.is_done() && self.way.reports && self.lie.fault.is_in(self.way.call) {
            outcome.breaches.push(Breach::new(Law::NotTaken, format!("taken: {end}")));
        }
        if let (Some(overlooked), End::Done(Some(value))) = (self.way.overlooks, &end)
            && value == overlooked
        {
            outcome.breaches.push(Breach::new(Law::NothingOverlooked, format!("{end}")));
        }
        if !end.is_done() && self.lie.fault == Fault::Truth {
            outcome.breaches.push(Breach::new(Law::Accepted, end.to_string()));
        }
        let was_ended = by >= EndedBy::Terminate;
        let is_lost = was_ended || matches!(end, End::Lost(_));
        // If the session was lost and was not ended from here, it met an error that it should not have met.
        if is_lost && !was_ended {
            outcome.breaches.push(Breach::new(Law::SessionLives, end.to_string()));
        }
        Ok(Tried { pid: session.pid, session: (!is_lost).then_some(session), outcome })
    }

    /// Runs the preparing statements. Returns how long an honest save takes.
    pub fn prepare(&self, session: &Session) -> Result<Duration> {
        session.value("SET claims.service_timeout = '20s'")?;
        let began = Instant::now();
        session.value(&self.sql("INSERT INTO routes (name) VALUES ('{name}-before')"))?;
        let took = began.elapsed();
        for step in self.way.before {
            match step {
                Before::App(sql) => drop(session.value(&self.sql(sql))?),
                Before::Unseen(sql) => {
                    let name = "ALTER TABLE routes";
                    let sql = self.sql(sql);
                    self.home.admin()?.value(&format!(
                        "{name} DISABLE TRIGGER claims_capture; {sql}; {name} ENABLE TRIGGER claims_capture"
                    ))?;
                }
                Before::LostLease => self.lose_lease(session)?,
            }
        }
        Ok(took)
    }

    fn lose_lease(&self, session: &Session) -> Result<()> {
        let xid = session.value("BEGIN; SELECT pg_current_xact_id(); ROLLBACK")?.context("no xid")?;
        let record = serde_json::json!([{"bucket": {"type": "ROUTES", "value": self.name},
                                         "subject": {"type": "GROUP", "id": 1},
                                         "source": {"type": "RAILS_TABLE_ROUTES", "id": 1}}]);
        let begin = format!("SELECT claims.begin_update({}, '{record}', cell_xid => '{xid}')", self.home.cell);
        self.home.field.at_service()?.value(&begin).map(drop)
    }

    /// Runs a statement, and judges how it has ended.
    fn act(&self, session: &Session, sql: &str, honest_call: Duration, began: Instant, outcome: &mut Outcome) -> Ended {
        let allowance = || Allowance { lag: self.lag.since(began), honest_call };
        let limit = match self.way.limit {
            Limit::Call => Some(self.lie.timeout()),
            Limit::Connection => Some(CONNECT + self.lie.timeout()),
            Limit::Minute => None,
        };
        let wait = limit.map_or(self.lie.timeout() + A_WHILE, |limit| limit + allowance().late() + MUCH_LATER);
        let ended = session.run_until(sql, wait, allowance().obedience() + MUCH_LATER);
        let mut breach = |law, how: String| outcome.breaches.push(Breach::new(law, how));
        let took = ended.took.as_millis();
        match (ended.by, limit) {
            (EndedBy::Itself, Some(limit)) => {
                outcome.late = outcome.late.max(ended.took.saturating_sub(limit));
                if ended.took > limit + allowance().late() {
                    let late = allowance().late().as_millis();
                    breach(Law::Punctual, format!("{took} ms, of {} ms and {late} more", limit.as_millis()));
                }
            }
            (EndedBy::Itself, None) => {}
            (EndedBy::Cancel, limit) => {
                if limit.is_some() {
                    breach(Law::Punctual, format!("not over {} ms after its beginning", wait.as_millis()));
                }
                if ended.took > allowance().obedience() {
                    breach(Law::Obedient, format!("a cancel was obeyed after {took} ms"));
                }
            }
            (EndedBy::Terminate, _) => breach(Law::Obedient, "no cancel was obeyed, only the order to end".into()),
            (EndedBy::Kill, _) => breach(Law::NoHang, "neither a cancel nor the order to end was obeyed".into()),
        }
        if let End::Refused { code, .. } = &ended.end
            && !is_proper(code)
        {
            breach(Law::Sqlstate, ended.end.to_string());
        }
        ended
    }

    pub fn judge_memory(&self, used: u64, outcome: &mut Outcome) {
        outcome.memory = outcome.memory.max(used);
        if used > MEMORY {
            outcome.breaches.push(Breach::new(Law::Memory, format!("{} MB more than before", used >> 20)));
        }
    }
}

impl Tried {
    fn has_crashed(&self, crashes: &[Crash]) -> bool {
        crashes.iter().any(|crash| crash.pid == Some(self.pid))
    }

    fn with_crash(mut self, crashes: &[Crash]) -> Tried {
        let lines: Vec<_> = crashes.iter().map(|crash| crash.line.as_str()).collect();
        self.outcome.breaches.push(Breach::new(Law::NoCrash, lines.join("; ")));
        self
    }
}

impl Outcome {
    fn of(breach: Breach) -> Outcome {
        Outcome { breaches: vec![breach], ..Outcome::default() }
    }

    fn has_broken(&self, law: Law) -> bool {
        self.breaches.iter().any(|breach| breach.law == law)
    }
}

/// How long the remaining honest part of a case may take.
pub const HONESTLY: Duration = HONEST_LIMIT;
