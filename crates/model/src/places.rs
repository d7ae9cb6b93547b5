//! Places for connections at services, where a service has none left. Sessions wait for places in the order of their arrival. A session
//! that closes its connection gives its place to the one that has waited for the longest time.
//!
//! Places also come free without being given: other servers have sessions at the service, too. So the first of all that wait tries again
//! and again, and the others sleep. It tries seldom, since each attempt costs the service a process, until it finds a place in this way:
//! then more may be free, and the next one tries soon.
//!
//! A connection that no call uses is given up when another session waits for its place, whatever the transaction of its own session does: the
//! waiting session asks for it. A connection over which a call waits for a lease counts as unused.
//!
//! A session that waits for a place holds nothing that the holder of a place waits for: no turn to call the service (`turns`), and no
//! connection to a service of a larger key. So no two sessions wait for each other.
//!
//! The state has a fixed size and no pointers, so it can be in shared memory. Each operation takes one change at a time, under a
//! lock of the caller's.

use std::time::Duration;

use zerocopy::FromBytes;

use crate::holders::Holders;
pub use crate::holders::{Asked, MAX_HOLDERS};
use crate::queue::{MAX_WAITING, Process, Queue, ServiceKey, Ticket, Waiting};

/// Maximum number of services that are remembered.
pub const MAX_SERVICES: usize = 64;
/// Time for which a service counts as full after it has refused a connection, in microseconds.
const FULL_US: i64 = 10_000_000;

/// A session keeps its place for at least so many times as long as connecting has taken. So of the time of a place, at most a small part
/// goes into connecting, however many sessions share it.
const KEPT_FOR_CONNECTS: u32 = 20;
/// It keeps its place for no longer than that because connecting has taken long.
const LEAST_AT_MOST: Duration = Duration::from_secs(1);
/// It keeps its place for longer while all that wait get one within half of their timeouts: a new process at the service first fills its
/// caches, which takes several times as long as connecting.
const KEPT_AT_MOST: Duration = Duration::from_secs(5);

/// A session that does not use its connection keeps it for so many times as long as connecting has taken: the next call of a busy session comes
/// sooner, however slow the machine is, and to connect anew for each call would make it slower.
const UNUSED_FOR_CONNECTS: u32 = 5;
/// It keeps it for that long in any case. The session of a save that has just begun its lease ends its transaction sooner, and settles the lease
/// over this connection.
const UNUSED_AT_LEAST: Duration = Duration::from_millis(50);
/// Apart from that it keeps it for at most this part of its timeout, so that one that waits as long gets the place in time.
const UNUSED_PART: u32 = 4;

/// Returns how long a session keeps its place at least, if connecting has taken so long.
pub fn least_time(connecting: Duration) -> Duration {
    connecting.saturating_mul(KEPT_FOR_CONNECTS).min(LEAST_AT_MOST)
}

/// Returns how long a session keeps a connection without using it while others want its place, if connecting has taken so long, and it would
/// itself wait for a place for `timeout`.
pub fn unused_time(connecting: Duration, timeout: Duration) -> Duration {
    let most = (timeout / UNUSED_PART).min(LEAST_AT_MOST);
    connecting.saturating_mul(UNUSED_FOR_CONNECTS).min(most).max(UNUSED_AT_LEAST)
}

/// The connections and calls of this server's sessions at a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, FromBytes)]
pub struct Numbers {
    /// The open connections.
    pub connections: u64,
    /// Connections that the service has refused for want of places, since the server has started.
    pub refused: u64,
    /// Calls that ended because their turn or a place did not come in time, since the server has started.
    pub failed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromBytes)]
struct KnownService {
    /// 0 for a free entry.
    key: ServiceKey,
    refused_at: i64,
    /// When a session has passed its place on, in microseconds of a clock that is never set.
    passed_on_at: i64,
    numbers: Numbers,
}

/// The mark of a session to which another one has given its place.
const GIVEN: u32 = 1;
/// The mark of a session before which another one has found a place that nobody gave it.
const FOUND: u32 = 2;

/// The chance of a session that waits for a place to find one now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chance {
    /// Sleep until it is woken.
    None,
    /// Try now and then: it is the first of all that wait.
    Seldom,
    /// Try soon: it was given a place, or the session before has found one.
    Good,
}

/// How much the place of a session is wanted by others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    None,
    /// The service was full some seconds ago.
    Lately,
    /// A session waits for a place.
    Now,
}

/// The sessions of a server that wait for places. All zeros is the state without any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromBytes)]
pub struct Places<
    const SERVICES: usize = MAX_SERVICES,
    const WAITING: usize = MAX_WAITING,
    const HOLDERS: usize = MAX_HOLDERS,
> {
    services: [KnownService; SERVICES],
    queue: Queue<WAITING>,
    holders: Holders<HOLDERS>,
}

impl<const SERVICES: usize, const WAITING: usize, const HOLDERS: usize> Places<SERVICES, WAITING, HOLDERS> {
    /// Queues a session. Returns `None` if too many wait: then it must try by itself.
    pub fn arrive(&mut self, service: ServiceKey, process: Process) -> Option<Ticket> {
        let ticket = self.queue.ticket(None);
        self.queue.enter(service, process, ticket).then_some(ticket)
    }

    /// Returns whether a session should try to connect now. While places that were given are not taken yet, nobody behind them tries,
    /// so that nobody is overtaken.
    pub fn chance(&self, ticket: Ticket) -> Chance {
        let all = self.queue.all();
        let Some(at) = all.iter().position(|waiting| waiting.ticket == ticket) else { return Chance::Seldom };
        match all[at].mark {
            GIVEN => Chance::Good,
            _ if all[..at].iter().any(|before| before.service == all[at].service) => Chance::None,
            FOUND => Chance::Good,
            _ => Chance::Seldom,
        }
    }

    /// Notes that the offered place was taken. The session keeps its position.
    pub fn lost(&mut self, ticket: Ticket) {
        if let Some(waiting) = self.queue.first_mut(|waiting| waiting.ticket == ticket) {
            waiting.mark = 0;
        }
    }

    /// Gives a place that comes free to the session that has waited for the longest time. Returns its process, which must be woken
    /// once the place is free.
    pub fn give(&mut self, service: ServiceKey) -> Option<Process> {
        let first = self.queue.first_mut(|waiting| wants_place(waiting, service))?;
        first.mark = GIVEN;
        Some(first.process)
    }

    /// Registers a connection that can be asked for when it was not used for some time. Returns its number, or `None` if there is no room.
    pub fn hold(&mut self, service: ServiceKey, process: Process, unused: Duration) -> Option<usize> {
        self.holders.hold(service, process, u32::try_from(unused.as_micros()).unwrap_or(u32::MAX))
    }

    /// Ends the registration of a connection that is closed, and gives its place like [`Self::give`], unless it was given when the connection was
    /// asked for.
    pub fn let_go(&mut self, service: ServiceKey, holder: Option<usize>, was_asked_for: bool) -> Option<Process> {
        holder.into_iter().for_each(|holder| self.holders.let_go(holder));
        if was_asked_for { None } else { self.give(service) }
    }

    /// Asks for the connection that no call has used for the longest time, and gives its place to the session that has waited for the
    /// longest time. `idle_since` says since when no call uses a connection; `None` if one does, or it was asked for in this time already.
    pub fn ask(&mut self, service: ServiceKey, now: i64, idle_since: impl Fn(usize) -> Option<i64>) -> Option<Asked> {
        self.queue.all().iter().find(|waiting| wants_place(waiting, service))?;
        let (holder, process) = self.holders.ask(service, now, idle_since)?;
        self.give(service).map(|to_wake| Asked { holder, process, to_wake })
    }

    /// Removes a session that waits no longer. If it leaves without a connection, a place that it was given goes to the next one.
    /// Returns the processes that should try now, and must be woken: the one with that place, and the first of all that wait.
    pub fn leave(&mut self, ticket: Ticket, is_connected: bool) -> [Option<Process>; 2] {
        let Some(Waiting { service, mark, .. }) = self.queue.remove(ticket) else { return [None; 2] };
        let given = if mark == GIVEN && !is_connected { self.give(service) } else { None };
        let head = self.queue.first_mut(|waiting| waiting.service == service).filter(|head| head.mark != GIVEN);
        let Some(head) = head else { return [given, None] };
        if is_connected && mark != GIVEN {
            head.mark = FOUND;
        }
        [given, Some(head.process)]
    }

    /// Returns how much the place of a session is wanted.
    pub fn demand(&self, service: ServiceKey, now: i64) -> Demand {
        if self.queue.all().iter().any(|waiting| wants_place(waiting, service)) {
            return Demand::Now;
        }
        let is_recent =
            |known: &KnownService| known.numbers.refused > 0 && now.saturating_sub(known.refused_at) < FULL_US;
        if self.service(service).is_some_and(is_recent) { Demand::Lately } else { Demand::None }
    }

    /// Returns how long a session keeps its place while others wait, if it keeps it for [`least_time`] in any case, and each session
    /// waits for `timeout`.
    pub fn kept_for(&self, service: ServiceKey, least: Duration, timeout: Duration) -> Duration {
        self.share(service, timeout / 2).min(KEPT_AT_MOST).max(least)
    }

    /// Decides whether a session that has kept its place for [`Self::kept_for`] passes it on now. Sessions that have connected together do not pass
    /// their places on together: the service would end and begin all processes at once, and nobody would use the places meanwhile.
    pub fn pass_on(&mut self, service: ServiceKey, kept_for: Duration, now: i64) -> bool {
        let Some(known) = self.service_or_free(service) else { return true };
        let connections = u32::try_from(known.numbers.connections).unwrap_or(u32::MAX).max(1);
        let pause = i64::try_from((kept_for / connections).as_micros()).unwrap_or(i64::MAX);
        let is_next = now.saturating_sub(known.passed_on_at) >= pause;
        if is_next {
            known.passed_on_at = now;
        }
        is_next
    }

    /// Returns how long each session may keep its place, so that all that wait now have one after `all`.
    fn share(&self, service: ServiceKey, all: Duration) -> Duration {
        let waiting = u32::try_from(self.waiting(service)).unwrap_or(u32::MAX).max(1);
        all.saturating_mul(u32::try_from(self.numbers(service).connections).unwrap_or(u32::MAX)) / waiting
    }

    /// Returns the number of sessions that wait for places.
    pub fn waiting(&self, service: ServiceKey) -> usize {
        self.queue.all().iter().filter(|waiting| waiting.service == service).count()
    }

    /// Returns the numbers of a service.
    pub fn numbers(&self, service: ServiceKey) -> Numbers {
        self.service(service).map_or_else(Numbers::default, |known| known.numbers)
    }

    /// Notes that the service has refused a connection for want of places.
    pub fn refused(&mut self, service: ServiceKey, now: i64) {
        if let Some(known) = self.service_or_free(service) {
            known.refused_at = now;
            known.numbers.refused += 1;
        }
    }

    /// Notes that a call has ended because its turn or a place did not come in time.
    pub fn failed(&mut self, service: ServiceKey) {
        if let Some(known) = self.service_or_free(service) {
            known.numbers.failed += 1;
        }
    }

    /// Counts a connection. Returns `false` if there is no room for its service; then its end must not be counted, either.
    pub fn opened(&mut self, service: ServiceKey) -> bool {
        self.service_or_free(service).map(|known| known.numbers.connections += 1).is_some()
    }

    /// Counts the end of a connection.
    pub fn closed(&mut self, service: ServiceKey) {
        if let Some(known) = self.services.iter_mut().find(|known| known.key == service) {
            known.numbers.connections = known.numbers.connections.saturating_sub(1);
        }
    }

    /// Returns the services that are remembered, of those whose keys are wanted.
    pub fn services(&self, is_wanted: impl Fn(ServiceKey) -> bool) -> Vec<ServiceKey> {
        self.services.iter().map(|known| known.key).filter(|key| *key != 0 && is_wanted(*key)).collect()
    }

    fn service(&self, key: ServiceKey) -> Option<&KnownService> {
        self.services.iter().find(|known| known.key == key)
    }

    /// Returns the entry of a service. A service without connections loses its entry to another one.
    fn service_or_free(&mut self, key: ServiceKey) -> Option<&mut KnownService> {
        let is_unused = |known: &KnownService| known.numbers.connections == 0;
        let at = self.services.iter().position(|known| known.key == key);
        let at = at.or_else(|| self.services.iter().position(|known| known.key == 0));
        let at = at.or_else(|| self.services.iter().position(is_unused))?;
        let known = &mut self.services[at];
        if known.key != key {
            *known = KnownService { key, refused_at: 0, passed_on_at: 0, numbers: Numbers::default() };
        }
        Some(known)
    }
}

/// Returns whether a session waits for a place at a service, and was not given one.
fn wants_place(waiting: &Waiting, service: ServiceKey) -> bool {
    waiting.service == service && waiting.mark != GIVEN
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros;

    use super::*;

    fn places() -> Box<Places> {
        Box::new(<Places>::new_zeroed())
    }

    fn arrive(places: &mut Places, process: Process) -> Ticket {
        places.arrive(1, process).expect("there is room")
    }

    #[test]
    fn places_are_given_in_the_order_of_arrival() {
        use Chance::{Good, None as Sleeps, Seldom};
        let mut places = places();
        assert_eq!(places.give(1), None, "nobody waits");
        let tickets: Vec<_> = (10..14).map(|process| arrive(&mut places, process)).collect();
        let chances = |places: &Places| tickets.iter().map(|ticket| places.chance(*ticket)).collect::<Vec<_>>();
        assert_eq!(chances(&places), [Seldom, Sleeps, Sleeps, Sleeps], "only the first tries");
        assert_eq!((places.give(1), places.give(1), places.give(2)), (Some(10), Some(11), None));
        assert_eq!(chances(&places), [Good, Good, Sleeps, Sleeps], "nobody overtakes those that have places");
        assert_eq!(places.leave(tickets[1], true), [None; 2], "the first has a place, and is awake");
        assert_eq!(places.leave(tickets[0], true), [None, Some(12)]);
        assert_eq!((places.chance(tickets[2]), places.chance(tickets[3])), (Seldom, Sleeps));
        assert_eq!((places.waiting(1), places.demand(1, 0)), (2, Demand::Now));
        assert_eq!(places.leave(tickets[2], true), [None, Some(13)]);
        assert_eq!(places.chance(tickets[3]), Good, "the one before has found a place by itself");
        places.lost(tickets[3]);
        assert_eq!(places.chance(tickets[3]), Seldom);
        assert_eq!(places.give(1), Some(13));
        assert_eq!(places.demand(1, 0), Demand::None, "who has a place asks for none");
        assert_eq!(places.leave(tickets[3], false), [None, None]);
    }

    #[test]
    fn a_place_is_passed_on_or_lost() {
        let mut places = places();
        let tickets: Vec<_> = (10..13).map(|process| arrive(&mut places, process)).collect();
        assert_eq!(places.give(1), Some(10));
        assert_eq!(places.leave(tickets[0], false), [Some(11), None], "one that gives up passes its place on");
        assert_eq!(places.chance(tickets[1]), Chance::Good);
        places.lost(tickets[1]);
        let of_both = (places.chance(tickets[1]), places.chance(tickets[2]));
        assert_eq!(of_both, (Chance::Seldom, Chance::None), "a place that is taken keeps the order");
        assert_eq!(places.leave(tickets[2], false), [None, Some(11)]);
        assert_eq!(places.leave(tickets[1], false), [None; 2]);
        assert_eq!(places.leave(tickets[1], false), [None; 2], "leaving twice does nothing");
        assert_eq!((places.demand(1, 0), places.waiting(1)), (Demand::None, 0));
    }

    #[test]
    fn those_who_have_places_share_the_time_until_all_have_had_one() {
        let mut places = places();
        assert!((0..4).all(|_| places.opened(1)));
        let all = Duration::from_secs(6);
        assert_eq!(places.share(1, all), 4 * all, "nobody waits");
        for process in 10..22 {
            arrive(&mut places, process);
        }
        assert_eq!(places.share(1, all), Duration::from_secs(2));
        assert_eq!(places.share(2, all), Duration::ZERO);
    }

    #[test]
    fn a_place_is_kept_for_many_times_as_long_as_connecting_takes_and_longer_if_all_get_one_in_time() {
        let ms = Duration::from_millis;
        assert_eq!([0, 5, 49, 60, 10_000].map(|took| least_time(ms(took))), [0, 100, 980, 1000, 1000].map(ms));
        assert_eq!(least_time(Duration::MAX), ms(1000));
        let unused = |timeout, took| unused_time(ms(took), ms(timeout));
        assert_eq!([0, 10, 20, 200, 201].map(|took| unused(60_000, took)), [50, 50, 100, 1000, 1000].map(ms));
        assert_eq!([10, 15, 20, 200].map(|took| unused(280, took)), [50, 70, 70, 70].map(ms), "others wait for 280 ms");
        assert_eq!(unused(100, 200), ms(50));
        let mut places = places();
        assert!((0..4).all(|_| places.opened(1)));
        assert_eq!(places.kept_for(1, ms(100), ms(2000)), ms(4000), "one waits at most: four places within its half");
        for process in 0..8 {
            arrive(&mut places, process);
        }
        let kept_for = |least, timeout| places.kept_for(1, ms(least), ms(timeout));
        assert_eq!(kept_for(100, 2000), ms(500), "eight wait: each place twice within the half of their timeout");
        assert_eq!(kept_for(100, 250), ms(100), "a short timeout is no reason to connect anew for each save");
        assert_eq!(kept_for(100, 60_000), ms(5000), "nobody keeps one for long while others wait");
    }
}
