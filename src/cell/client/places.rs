//! Places for the connections of this server's sessions at a service that has none left, if the library is preloaded.
//! `claims_model::places` has the rules. Without preloading each session tries again and again.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use claims_model::backoff::Backoff;
use claims_model::places::{self, Chance, Demand, Places};
use claims_model::queue::{ServiceKey, Ticket};
use pgrx::pg_sys::Oid;

use crate::cell::errors::CellError;
use crate::kernel::error::ClaimsError;
use crate::kernel::settings;
use pg::clock::{Moment, monotonic};
use pg::shared::{FromBytes, Locked, Shared};
use pg::{background, idle_sockets, wait};

pub static PLACES: Locked<Places> = Locked::new(c"claims places");

/// The use of a connection, which other sessions read without a lock.
#[derive(FromBytes)]
pub struct Use {
    /// Since when no call uses it; 0 if one does.
    idle_since: AtomicI64,
    /// 1 if a session that waits for a place has asked for it since then, and was given its place.
    is_asked: AtomicU32,
    unused: AtomicU32,
}

/// The connections by the numbers of [`Places::hold`].
pub static USES: Shared<[Use; places::MAX_HOLDERS]> = Shared::new(c"claims connections");

fn of_holder(holder: Option<usize>) -> Option<&'static Use> {
    USES.get()?.get(holder?)
}

/// Pauses between attempts to connect to a service that has no place for another connection.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

thread_local! {
    /// The position of this session among those that wait. Left by the guard [`Queued`], or at the exit of the process.
    static OWN: Cell<Option<Ticket>> = const { Cell::new(None) };
    /// This session's open connections.
    static OPEN: RefCell<Vec<OpenConnection>> = const { RefCell::new(Vec::new()) };
    static HAS_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// An open connection that is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
struct OpenConnection {
    service: ServiceKey,
    /// Its number, if other sessions can ask for it.
    holder: Option<usize>,
}

/// Returns the name of a service of this database among those of the server.
pub fn key(service: Oid) -> ServiceKey {
    u64::from(background::own_database()) << 32 | u64::from(service.to_u32())
}

/// Returns whether sessions wait for places in order: the library is preloaded.
pub fn are_in_order() -> bool {
    PLACES.read(|_| ()).is_some()
}

/// A guard that counts an open connection, and gives its place to the session that has waited for the longest time.
pub struct ConnectionPlace {
    open: OpenConnection,
    taken_at: Instant,
    /// The session gives its place to no other one before this time has passed, unless it does not use it.
    least: Duration,
    /// How long it keeps the connection without using it while others want its place.
    unused: Duration,
}

impl ConnectionPlace {
    /// Counts a connection of which the attempt has begun at `since`.
    pub fn taken(service: Oid, since: Instant) -> ConnectionPlace {
        let (service, now) = (key(service), Instant::now());
        let connecting = now.saturating_duration_since(since);
        let unused = places::unused_time(connecting, settings::service_timeout());
        clean_up_at_exit();
        let can_be_asked = idle_sockets::can_be_asked();
        let holder = PLACES.write(|places| {
            let is_counted = places.opened(service);
            let holder = if can_be_asked { places.hold(service, background::own_sleeper(), unused) } else { None };
            // Nobody asks for it before it is used for the first time.
            if let Some(of_holder) = of_holder(holder) {
                of_holder.idle_since.store(0, Ordering::Relaxed);
                of_holder.is_asked.store(0, Ordering::Relaxed);
            }
            (is_counted, holder)
        });
        let open = OpenConnection { service, holder: holder.and_then(|(_, holder)| holder) };
        if holder.is_some_and(|(is_counted, _)| is_counted) {
            OPEN.with_borrow_mut(|all| all.push(open));
        }
        ConnectionPlace { open, taken_at: now, least: places::least_time(connecting), unused }
    }

    /// Notes that a call uses the connection from now on.
    pub fn is_used(&self) {
        if let Some(of_holder) = of_holder(self.open.holder) {
            of_holder.idle_since.store(0, Ordering::Relaxed);
        }
    }

    /// Notes that no call uses the connection from now on. Other sessions may ask for it.
    pub fn is_unused(&self) {
        if let Some(of_holder) = of_holder(self.open.holder) {
            of_holder.is_asked.store(0, Ordering::Relaxed);
            of_holder.idle_since.store(monotonic(), Ordering::Relaxed);
        }
    }

    /// Returns the flag by which other sessions ask for the connection.
    pub fn asked(&self) -> Option<&'static AtomicU32> {
        of_holder(self.open.holder).map(|of_holder| &of_holder.is_asked)
    }

    /// Decides at the end of a transaction whether this session should close its connection, because another one waits for its place.
    pub fn is_wanted(&self, now: Instant) -> bool {
        if self.demand() != Demand::Now {
            return false;
        }
        let (service, timeout) = (self.open.service, settings::service_timeout());
        let kept_for = PLACES.read(|places| places.kept_for(service, self.least, timeout)).unwrap_or_default();
        now.saturating_duration_since(self.taken_at) >= kept_for
            && PLACES.write(|places| places.pass_on(service, kept_for, monotonic())).unwrap_or(true)
    }

    /// Returns the service.
    pub fn service(&self) -> ServiceKey {
        self.open.service
    }

    /// Returns how long the session may keep the connection without using it: `idle`, but less if the service was full lately.
    pub fn idle_time(&self, idle: Duration, now: Instant) -> Duration {
        match self.demand() {
            Demand::None => idle,
            Demand::Lately | Demand::Now => {
                let kept = now.saturating_duration_since(self.taken_at);
                idle.min(self.least.saturating_sub(kept).max(self.unused))
            }
        }
    }

    fn demand(&self) -> Demand {
        PLACES.read(|places| places.demand(self.open.service, Moment::now().0)).unwrap_or(Demand::None)
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let at = OPEN.with_borrow(|open| open.iter().position(|open| *open == self.open));
        if let Some(at) = at {
            OPEN.with_borrow_mut(|open| open.swap_remove(at));
        }
        closed(self.open, at.is_some());
    }
}

/// Gives the place of a closed connection to the session that has waited for the longest time.
fn closed(OpenConnection { service, holder }: OpenConnection, is_counted: bool) {
    let to_wake = PLACES.write(|places| {
        let was_asked_for = of_holder(holder).is_some_and(|of_holder| of_holder.is_asked.load(Ordering::Relaxed) == 1);
        if is_counted {
            places.closed(service);
        }
        places.let_go(service, holder, was_asked_for)
    });
    to_wake.into_iter().flatten().for_each(background::wake_sleeper);
}

/// Has another session close a connection that no call uses, if a session waits for a place.
fn ask(service: ServiceKey) {
    let idle_since = |holder: usize| {
        of_holder(Some(holder))
            .filter(|of_holder| of_holder.is_asked.load(Ordering::Relaxed) == 0)
            .map(|of_holder| of_holder.idle_since.load(Ordering::Relaxed))
            .filter(|since| *since != 0)
    };
    let asked = PLACES.write(|places| {
        let asked = places.ask(service, monotonic(), idle_since)?;
        if let Some(of_holder) = of_holder(Some(asked.holder)) {
            of_holder.is_asked.store(1, Ordering::Relaxed);
        }
        // A process that ends waits for the lock before, so this one has not ended.
        idle_sockets::ask(asked.process);
        Some(asked)
    });
    asked.flatten().into_iter().for_each(|asked| background::wake_sleeper(asked.to_wake));
}

/// A guard: this session waits for a place.
struct Queued(Option<Ticket>);

impl Queued {
    fn arrive(service: ServiceKey) -> Queued {
        clean_up_at_exit();
        // A call within a call has no position of its own.
        if OWN.get().is_none() {
            let ticket = PLACES.write(|places| {
                let ticket = places.arrive(service, background::own_sleeper());
                OWN.set(ticket);
                ticket
            });
            return Queued(ticket.flatten());
        }
        Queued(None)
    }

    fn chance(&self) -> Chance {
        let Some(ticket) = self.0 else { return Chance::Seldom };
        PLACES.read(|places| places.chance(ticket)).unwrap_or(Chance::Seldom)
    }

    fn lost(&self) {
        if let Some(ticket) = self.0 {
            PLACES.write(|places| places.lost(ticket));
        }
    }

    fn connected(self) {
        if self.0.is_some() {
            leave(true);
        }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        if self.0.is_some() {
            leave(false);
        }
    }
}

/// Leaves the queue, and wakes the next process.
fn leave(is_connected: bool) {
    let Some(ticket) = OWN.take() else { return };
    let to_wake = PLACES.write(|places| places.leave(ticket, is_connected));
    to_wake.into_iter().flatten().flatten().for_each(background::wake_sleeper);
}

fn clean_up_at_exit() {
    if !HAS_CALLBACK.replace(true) {
        background::at_exit(|| {
            leave(false);
            OPEN.take().into_iter().for_each(|open| closed(open, true));
        });
    }
}

/// A call that needs a new connection.
pub struct NewConnection<'s> {
    pub server: &'s str,
    pub service: Oid,
    /// Until when it may wait for a place.
    pub deadline: Instant,
    /// Whether it does not wait: other sessions come first.
    pub gives_way: bool,
}

/// Connects. If the service has no place for another connection, or others wait for one already, waits in order until the deadline.
/// `before_waiting` is called once before that, and must leave nothing that the holder of a place could wait for. `go_on` is asked after
/// each sleep, and its error ends the waiting. Returns how long it has waited, too.
pub fn find<T>(
    NewConnection { server, service, deadline, gives_way }: NewConnection,
    connect: impl Fn() -> Result<T, ClaimsError>,
    before_waiting: impl FnOnce(),
    go_on: impl Fn() -> Result<(), ClaimsError>,
) -> Result<(T, Duration), ClaimsError> {
    let key = key(service);
    // Connecting itself has a limit of its own.
    let connect = || connect().inspect_err(|error| note(key, error));
    let awaited = || {
        let detail = "Other sessions of this server were waiting for a place already.".into();
        ClaimsError::from(CellError::ServiceFull { server: server.to_owned(), detail })
    };
    let is_awaited = || PLACES.read(|places| places.waiting(key) > 0).unwrap_or(false);
    let mut last_answer = None;
    if !is_awaited() {
        match connect() {
            Err(full) if is_full(&full) => last_answer = Some(full),
            connected => return connected.map(|connected| (connected, Duration::ZERO)),
        }
    }
    if gives_way {
        return Err(last_answer.unwrap_or_else(awaited));
    }
    before_waiting();
    let since = Instant::now();
    let queued = Queued::arrive(key);
    let mut attempts = Attempts::new(queued.chance(), since);
    loop {
        let now = Instant::now();
        if now >= deadline {
            call_failed(service);
            return Err(last_answer.unwrap_or_else(awaited));
        }
        ask(key);
        let next = attempts.next(queued.chance(), now).map_or(deadline, |next| next.min(deadline));
        if next > now {
            wait::sleep((next - now).max(Duration::from_millis(1)));
            go_on()?;
            continue;
        }
        match connect() {
            Err(full) if is_full(&full) => last_answer = Some(full),
            // The deadline has come during an attempt. That the service has answered this call before says more.
            Err(other) => match other.of() {
                Some(CellError::ServiceSilent { .. }) if last_answer.is_some() && Instant::now() >= deadline => {}
                _ => return Err(other),
            },
            Ok(connected) => {
                queued.connected();
                return Ok((connected, since.elapsed()));
            }
        }
        if attempts.has_failed(Instant::now()) {
            queued.lost();
        }
    }
}

/// The moments at which a session that waits for a place tries to connect.
struct Attempts {
    chance: Chance,
    pauses: Backoff,
    /// The pause before the next attempt.
    pause: Duration,
    next: Instant,
}

impl Attempts {
    fn new(chance: Chance, now: Instant) -> Attempts {
        let first = if chance == Chance::Good { FIRST_PAUSE } else { LONGEST_PAUSE };
        let mut pauses = Backoff::new(first, LONGEST_PAUSE);
        let pause = pauses.pause();
        Attempts { chance, pauses, pause, next: now + pause }
    }

    /// Returns the moment of the next attempt. `None`: the session sleeps until it is woken. Being woken alone is no reason for an
    /// attempt, which would cost the service a process.
    fn next(&mut self, chance: Chance, now: Instant) -> Option<Instant> {
        if chance != self.chance {
            *self = Attempts::new(chance, now);
        }
        (chance != Chance::None).then_some(self.next)
    }

    /// Returns whether all attempts with a good chance have failed. The process at the service that had the place must have ended by now.
    fn has_failed(&mut self, now: Instant) -> bool {
        let was_last = self.pause == LONGEST_PAUSE;
        self.pause = self.pauses.pause();
        self.next = now + self.pause;
        was_last && self.chance == Chance::Good
    }
}

/// Returns whether the service has no place for a call.
pub fn is_full(error: &ClaimsError) -> bool {
    matches!(error.of(), Some(CellError::ServiceFull { .. }))
}

/// Counts a refusal of the service for want of places.
fn note(service: ServiceKey, error: &ClaimsError) {
    if is_full(error) {
        PLACES.write(|places| places.refused(service, Moment::now().0));
    }
}

/// Counts a call that ends because its turn or a place did not come in time.
pub fn call_failed(service: Oid) {
    if service != Oid::INVALID {
        PLACES.write(|places| places.failed(key(service)));
    }
}
