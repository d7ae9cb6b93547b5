//! Looks into the indexes of requests without statements. `None` where a table or an index is not as the extension has created it: then statements
//! answer. They cost five times as many instructions, most of them to set the executor up and to read whole pages of an index for one row.

use std::ops::ControlFlow;

use pgrx::Uuid as PgUuid;

use super::statements::{self, Start};
use crate::kernel::direct::layouts::{REQUESTS, request, requests_index as index};
use pg::clock::Moment;
use pg::direct::{self, Bound, Reading, Row, Scans};
use pg::index::{KeyComparison, KeyValue};
use pg::spi::Connection;
use pg::uuid::from_pg_uuid;
use pg::xid8::{TransactionSnapshot, Xid8};

/// The first ready request is probably among these next ids. PostgreSQL reads all entries of a page that fulfil a condition, so the first look has a
/// narrow one.
pub const NEAR: i64 = 32;

/// The start of a search.
#[derive(Default)]
pub struct Horizon {
    pub snapshot: String,
    /// The lowest ready request, or `None` if there is none.
    pub first: Option<i64>,
    /// The earliest end of a hold, or `None` if there is none.
    pub first_hold: Option<Moment>,
    pub has_marked: bool,
}

/// The cached start of an earlier search.
pub struct Cached {
    /// No ready request had a lower id.
    pub low: i64,
    /// No hold ended earlier.
    pub first_hold: Moment,
    /// The snapshot for which that was true, or `None` if nothing is cached.
    pub snapshot: Option<String>,
}

/// Returns the start of a search, from a cached one.
pub fn horizon(connection: &Connection, queue: &str, cached: &Cached) -> Horizon {
    let by_statement =
        || statements::start(connection, queue, cached.low, cached.snapshot.as_deref(), cached.first_hold);
    start(queue, cached).or_else(by_statement).map_or_else(Horizon::default, |start| Horizon {
        snapshot: start.snapshot,
        first: [start.first, start.first_late].into_iter().flatten().min(),
        first_hold: [start.first_hold, start.first_late_hold].into_iter().flatten().min(),
        has_marked: start.has_marked,
    })
}

/// Returns where a search begins, as [`statements::start`] does.
fn start(queue: &str, cached: &Cached) -> Option<Start> {
    let seen = cached.snapshot.as_deref().map(TransactionSnapshot::parse);
    let seen = match seen {
        Some(parsed) => Some(parsed?),
        None => None,
    };
    direct::read([&REQUESTS], |[requests]| {
        requests.scans(Reading::Statement, |scans| {
            let snapshot = TransactionSnapshot::active_text();
            let now = TransactionSnapshot::parse(&snapshot)?;
            let mut look = Look { scans, queue };
            let first = look.first_ready(cached.low)?;
            let (mut first_late, mut first_late_hold): (Option<i64>, Option<Moment>) = (None, None);
            if let Some(seen) = &seen {
                look.entered(index::ENTERED, seen, &now, |row| {
                    let late = Some(row.must(request::ID)).filter(|id| *id < cached.low);
                    first_late = [first_late, late].into_iter().flatten().min();
                })?;
                look.entered(index::HELD_SINCE, seen, &now, |row| {
                    first_late_hold = [first_late_hold, row.get(request::HOLD_UNTIL)].into_iter().flatten().min();
                })?;
            }
            let first_hold = look.first_hold(cached.first_hold)?;
            let has_marked = look.is_marked()?;
            Some(Start { snapshot, first, first_late, first_hold, first_late_hold, has_marked })
        })
    })?
}

/// Returns whether the table says that a process holds requests beyond a transaction, expired or not.
pub fn is_holding(process: PgUuid) -> Option<bool> {
    let bound = [equal(0, KeyValue::Uuid(from_pg_uuid(process)))];
    direct::read([&REQUESTS], |[requests]| {
        let found = requests.scans(Reading::Statement, |scans| scans.walk(index::HOLDER, &bound, |_| FOUND));
        found.ok().map(|found| found.is_some())
    })?
}

const FOUND: ControlFlow<()> = ControlFlow::Break(());

fn equal(at: usize, value: KeyValue) -> Bound {
    Bound { at, comparison: KeyComparison::Equal, value }
}

/// Looks for the requests of one queue. `None`: an index is too new for the snapshot.
struct Look<'s, 't> {
    scans: &'s mut Scans<'t>,
    queue: &'s str,
}

impl Look<'_, '_> {
    /// Returns the lowest ready request from an id on.
    fn first_ready(&mut self, low: i64) -> Option<Option<i64>> {
        let far = low.saturating_add(NEAR);
        match self.ready(low, Some(far))? {
            None => self.ready(far, None),
            found => Some(found),
        }
    }

    fn ready(&mut self, from: i64, below: Option<i64>) -> Option<Option<i64>> {
        let id = |comparison, value| Bound { at: 1, comparison, value: KeyValue::Int8(value) };
        let mut bounds = vec![equal(0, KeyValue::Text(self.queue)), id(KeyComparison::AtLeast, from)];
        bounds.extend(below.map(|below| id(KeyComparison::LessThan, below)));
        self.scans.walk(index::READY, &bounds, |row| ControlFlow::Break(row.must(request::ID))).ok()
    }

    /// Calls `each` for the requests of an index by `entered_xid` that transactions have added which `seen` does not show and `now` does.
    fn entered(
        &mut self,
        index: usize,
        seen: &TransactionSnapshot,
        now: &TransactionSnapshot,
        mut each: impl FnMut(&Row),
    ) -> Option<()> {
        let bound = |comparison, xid: Xid8| Bound { at: 0, comparison, value: KeyValue::Xid8(xid) };
        let since = [bound(KeyComparison::AtLeast, seen.next), bound(KeyComparison::LessThan, now.next)];
        let open = seen.open.iter().filter(|xid| now.shows(**xid)).map(|xid| [bound(KeyComparison::Equal, *xid)]);
        let queue = self.queue;
        let mut look = |bounds: &[Bound]| {
            let of_queue = |row: &Row| {
                if row.must::<String>(request::QUEUE) == queue {
                    each(row);
                }
                ControlFlow::<()>::Continue(())
            };
            self.scans.walk(index, bounds, of_queue).ok().map(drop)
        };
        look(&since)?;
        open.into_iter().try_for_each(|bounds| look(&bounds))
    }

    /// Returns the earliest end of a hold from a time on.
    fn first_hold(&mut self, from: Moment) -> Option<Option<Moment>> {
        let until = Bound { at: 1, comparison: KeyComparison::AtLeast, value: KeyValue::Time(from) };
        let bounds = [equal(0, KeyValue::Text(self.queue)), until];
        self.scans.walk(index::HOLD, &bounds, |row| ControlFlow::Break(row.must(request::HOLD_UNTIL))).ok()
    }

    /// Returns whether creates are marked.
    fn is_marked(&mut self) -> Option<bool> {
        let bound = [equal(0, KeyValue::Text(self.queue))];
        self.scans.walk(index::UNBLOCK, &bound, |_| FOUND).ok().map(|found| found.is_some())
    }
}
