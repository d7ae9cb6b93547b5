//! Limits how many calls are made to a service at the same time. Further callers wait, and get their turns in the order of their
//! arrival. A caller that pauses, because the service has no place for its connection, makes no call meanwhile: others get its turn. It
//! keeps its ticket, by which it stands before all that arrived later when it resumes.
//!
//! The state has a fixed size and no pointers, so it can be in shared memory. Each operation takes one change at a time, under a
//! lock of the caller's.

use zerocopy::FromBytes;

use crate::queue::{MAX_WAITING, Process, Queue, ServiceKey, Ticket, Waiting};

/// Maximum number of services with calls at one moment. Calls of further ones are not limited.
pub const MAX_SERVICES: usize = 64;
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromBytes)]
struct Calls {
    service: ServiceKey,
    /// The number of calls that are being made, and of turns that were given to waiting callers.
    calling: u32,
    /// Keeps the size a multiple of the alignment.
    unused: u32,
}

/// The mark of a caller whose turn it is.
const HAS_TURN: u32 = 1;

/// The calls and the waiting callers of all services of a server. All zeros is the state without any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromBytes)]
pub struct Turns<const SERVICES: usize = MAX_SERVICES, const WAITING: usize = MAX_WAITING> {
    services: [Calls; SERVICES],
    queue: Queue<WAITING>,
}

/// The answer to a caller that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnArrival {
    /// The call can be made now, and must be ended.
    Now(Ticket),
    /// The caller must wait until it is its turn.
    Wait(Ticket),
    /// The call can be made now; nothing counts it.
    Uncounted,
    /// Too many callers wait already.
    Full,
}

impl<const SERVICES: usize, const WAITING: usize> Turns<SERVICES, WAITING> {
    /// Lets a caller in, or queues it behind all that arrived before. A caller that resumes after a pause has the ticket of its first
    /// arrival.
    pub fn arrive(&mut self, service: ServiceKey, limit: u32, process: Process, first: Option<Ticket>) -> TurnArrival {
        let Some(calls) = self.calls_or_free(service) else { return TurnArrival::Uncounted };
        let ticket = self.queue.ticket(first);
        let calling = self.services[calls].calling;
        if calling < limit && self.next(service).is_none_or(|next| next.ticket > ticket) {
            self.services[calls].calling += 1;
            return TurnArrival::Now(ticket);
        }
        if self.queue.enter(service, process, ticket) { TurnArrival::Wait(ticket) } else { TurnArrival::Full }
    }

    /// Begins the call of a caller that has waited. Returns `false` if it is not its turn yet.
    pub fn take(&mut self, ticket: Ticket) -> bool {
        let has_turn = |waiting: &Waiting| waiting.ticket == ticket && waiting.mark == HAS_TURN;
        self.queue.all().iter().any(has_turn) && self.queue.remove(ticket).is_some()
    }

    /// Removes a caller that waits no longer. If it had its turn, that is free again: call [`Turns::next_turn`].
    pub fn give_up(&mut self, ticket: Ticket) {
        if let Some(left) = self.queue.remove(ticket).filter(|left| left.mark == HAS_TURN) {
            self.end(left.service);
        }
    }

    /// Ends a call. Then call [`Turns::next_turn`].
    pub fn end(&mut self, service: ServiceKey) {
        if let Some(calls) = self.calls(service) {
            self.services[calls].calling = self.services[calls].calling.saturating_sub(1);
        }
    }

    /// Gives the turn to the caller that has waited for the longest time, if another call may be made, and returns its process. Call it
    /// until it returns `None`: the limit may have grown.
    pub fn next_turn(&mut self, service: ServiceKey, limit: u32) -> Option<Process> {
        let calls = self.calls(service)?;
        if self.services[calls].calling >= limit {
            return None;
        }
        let next = self.queue.first_mut(|waiting| is_next(waiting, service))?;
        next.mark = HAS_TURN;
        self.services[calls].calling += 1;
        Some(next.process)
    }

    /// Returns the number of calls that are being made to a service, and of callers that wait.
    pub fn load(&self, service: ServiceKey) -> (usize, usize) {
        let calling = self.calls(service).map_or(0, |calls| self.services[calls].calling as usize);
        (calling, self.queue.all().iter().filter(|waiting| is_next(waiting, service)).count())
    }

    /// Returns the services that were called, of those whose keys are wanted.
    pub fn services(&self, is_wanted: impl Fn(ServiceKey) -> bool) -> Vec<ServiceKey> {
        self.services.iter().map(|calls| calls.service).filter(|key| *key != 0 && is_wanted(*key)).collect()
    }

    fn calls(&self, service: ServiceKey) -> Option<usize> {
        self.services.iter().position(|calls| calls.service == service)
    }

    /// Returns the entry of a service. A service that nobody calls or waits for loses its entry to another one.
    fn calls_or_free(&mut self, service: ServiceKey) -> Option<usize> {
        if let Some(calls) = self.calls(service) {
            return Some(calls);
        }
        let free = self.services.iter().position(|calls| calls.calling == 0 && self.next(calls.service).is_none())?;
        self.services[free] = Calls { service, calling: 0, unused: 0 };
        Some(free)
    }

    /// Returns the caller whose turn is next.
    fn next(&self, service: ServiceKey) -> Option<&Waiting> {
        self.queue.all().iter().find(|waiting| is_next(waiting, service))
    }
}

/// Returns whether a caller waits for its turn at a service.
fn is_next(waiting: &Waiting, service: ServiceKey) -> bool {
    waiting.service == service && waiting.mark != HAS_TURN
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros;

    use super::*;

    fn turns() -> Box<Turns> {
        Box::new(<Turns>::new_zeroed())
    }

    /// Returns the processes that get their turns.
    fn called(turns: &mut Turns, service: ServiceKey, limit: u32) -> Vec<Process> {
        std::iter::from_fn(|| turns.next_turn(service, limit)).collect()
    }

    fn arrive(turns: &mut Turns, service: ServiceKey, limit: u32, process: Process) -> TurnArrival {
        turns.arrive(service, limit, process, None)
    }

    fn is_now(arrival: TurnArrival) -> bool {
        matches!(arrival, TurnArrival::Now(_))
    }

    fn ticket(arrival: TurnArrival) -> Ticket {
        match arrival {
            TurnArrival::Wait(ticket) => ticket,
            other => panic!("{other:?} instead of a ticket"),
        }
    }

    #[test]
    fn callers_beyond_the_limit_get_their_turns_in_the_order_of_arrival() {
        let mut turns = turns();
        assert!(is_now(arrive(&mut turns, 1, 2, 10)) && is_now(arrive(&mut turns, 1, 2, 11)));
        let tickets: Vec<_> = (12..17).map(|process| ticket(arrive(&mut turns, 1, 2, process))).collect();
        assert_eq!(turns.load(1), (2, 5));
        assert!(!turns.take(tickets[0]), "it is nobody's turn before a call ends");
        turns.end(1);
        assert_eq!(called(&mut turns, 1, 2), [12]);
        assert!(!turns.take(tickets[1]) && turns.take(tickets[0]) && !turns.take(tickets[0]));
        // A caller that arrives while others wait does not overtake them, even if a call has just ended.
        turns.end(1);
        let late = ticket(arrive(&mut turns, 1, 2, 17));
        assert_eq!(called(&mut turns, 1, 2), [13]);
        turns.end(1);
        turns.end(1);
        assert_eq!(called(&mut turns, 1, 2), [14, 15]);
        assert_eq!(turns.load(1), (2, 2));
        assert!(turns.take(tickets[3]) && !turns.take(late));
    }

    #[test]
    fn a_caller_that_gives_up_passes_its_turn_on() {
        let mut turns = turns();
        assert!(is_now(arrive(&mut turns, 1, 1, 10)));
        let tickets: Vec<_> = (11..15).map(|process| ticket(arrive(&mut turns, 1, 1, process))).collect();
        turns.give_up(tickets[1]);
        assert_eq!(called(&mut turns, 1, 1), Vec::<Process>::new());
        turns.end(1);
        assert_eq!(called(&mut turns, 1, 1), [11]);
        turns.give_up(tickets[0]);
        assert_eq!(called(&mut turns, 1, 1), [13]);
        assert!(turns.take(tickets[2]));
        turns.give_up(tickets[0]);
        assert_eq!(turns.load(1), (1, 1));
    }

    #[test]
    fn a_caller_that_resumes_stands_where_it_arrived() {
        let mut turns = turns();
        let TurnArrival::Now(first) = arrive(&mut turns, 1, 1, 10) else { panic!("nobody calls") };
        let second = ticket(arrive(&mut turns, 1, 1, 11));
        // It pauses, so others get its turn.
        turns.end(1);
        assert_eq!((called(&mut turns, 1, 1), turns.load(1)), (vec![11], (1, 0)));
        let third = ticket(arrive(&mut turns, 1, 1, 12));
        assert_eq!(ticket(turns.arrive(1, 1, 10, Some(first))), first);
        turns.give_up(second);
        assert_eq!(called(&mut turns, 1, 1), [10], "the caller that resumes comes before one that arrived later");
        assert!(turns.take(first));
        turns.end(1);
        // One that arrived later does not stand in its way, either, if it was not called yet.
        assert_eq!(turns.arrive(1, 1, 10, Some(first)), TurnArrival::Now(first));
        turns.end(1);
        assert_eq!(called(&mut turns, 1, 1), [12]);
        assert!(turns.take(third) && turns.load(1) == (1, 0));
        assert_eq!(ticket(arrive(&mut turns, 1, 1, 13)), third + 1);
    }

    #[test]
    fn services_do_not_wait_for_each_other_and_a_limit_can_change() {
        let mut turns = turns();
        assert!(is_now(arrive(&mut turns, 1, 1, 10)) && is_now(arrive(&mut turns, 2, 1, 20)));
        let tickets = [
            ticket(arrive(&mut turns, 1, 1, 11)),
            ticket(arrive(&mut turns, 2, 1, 21)),
            ticket(arrive(&mut turns, 1, 1, 12)),
        ];
        assert_eq!(called(&mut turns, 1, 3), [11, 12]);
        assert!(turns.take(tickets[0]) && turns.take(tickets[2]) && !turns.take(tickets[1]));
        // A smaller limit ends no call.
        turns.end(1);
        assert_eq!((called(&mut turns, 1, 1), turns.load(1)), (vec![], (2, 0)));
        turns.end(1);
        assert!(matches!(arrive(&mut turns, 1, 1, 13), TurnArrival::Wait(_)));
    }

    #[test]
    fn there_is_an_end_of_waiting_callers_and_of_services() {
        let mut turns = turns();
        assert!(is_now(arrive(&mut turns, 1, 1, 10)));
        for process in 0..MAX_WAITING as u32 {
            assert!(matches!(arrive(&mut turns, 1, 1, process), TurnArrival::Wait(_)));
        }
        assert_eq!(arrive(&mut turns, 1, 1, 10), TurnArrival::Full);
        for service in 2..=MAX_SERVICES as u64 {
            assert!(is_now(arrive(&mut turns, service, 1, 10)));
        }
        assert_eq!(arrive(&mut turns, 1000, 1, 10), TurnArrival::Uncounted);
        // A service that nobody calls any more loses its entry.
        turns.end(2);
        assert!(is_now(arrive(&mut turns, 1000, 1, 10)));
        turns.end(2);
        assert_eq!(turns.load(2), (0, 0));
    }
}
