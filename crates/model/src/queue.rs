//! The order of arrival of sessions that wait for services: for their turns to call ([`crate::turns`]), or for places for connections
//! ([`crate::places`]).
//!
//! It has a fixed size and no pointers, so it can be in shared memory. Each operation takes one change at a time, under a lock of the
//! caller's.

use zerocopy::FromBytes;

/// Maximum number of sessions that wait in one queue, for all services together.
pub const MAX_WAITING: usize = 4096;

/// A service: a foreign server of a database. 0 is none.
pub type ServiceKey = u64;
/// A process that can be woken. The caller of this module chooses the numbers.
pub type Process = u32;
/// The position of a session in the order of arrival.
pub type Ticket = u64;

/// A session that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromBytes)]
pub struct Waiting {
    pub service: ServiceKey,
    pub ticket: Ticket,
    pub process: Process,
    /// A number that the user of the queue chooses; 0 at first.
    pub mark: u32,
}

/// The sessions that wait, in the order of their tickets. All zeros is an empty queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromBytes)]
pub struct Queue<const WAITING: usize> {
    last_ticket: Ticket,
    waiting: [Waiting; WAITING],
    count: u64,
}

impl<const WAITING: usize> Queue<WAITING> {
    /// Returns the ticket of a session that arrives. One that resumes has the ticket of its first arrival.
    pub fn ticket(&mut self, first: Option<Ticket>) -> Ticket {
        let ticket = first.unwrap_or(self.last_ticket + 1);
        self.last_ticket = self.last_ticket.max(ticket);
        ticket
    }

    /// Queues a session behind all that have smaller tickets. Returns `false` if too many wait.
    pub fn enter(&mut self, service: ServiceKey, process: Process, ticket: Ticket) -> bool {
        let count = self.all().len();
        if count == WAITING {
            return false;
        }
        let at = self.all().iter().position(|later| later.ticket > ticket).unwrap_or(count);
        self.waiting.copy_within(at..count, at + 1);
        self.waiting[at] = Waiting { service, ticket, process, mark: 0 };
        self.count += 1;
        true
    }

    /// Removes a session, and returns it.
    pub fn remove(&mut self, ticket: Ticket) -> Option<Waiting> {
        let at = self.all().iter().position(|waiting| waiting.ticket == ticket)?;
        let (count, left) = (self.all().len(), self.waiting[at]);
        self.waiting.copy_within(at + 1..count, at);
        self.count -= 1;
        Some(left)
    }

    pub fn all(&self) -> &[Waiting] {
        &self.waiting[..usize::try_from(self.count).map_or(WAITING, |count| count.min(WAITING))]
    }

    /// Returns the first session for which a condition holds.
    pub fn first_mut(&mut self, is_wanted: impl Fn(&Waiting) -> bool) -> Option<&mut Waiting> {
        let at = self.all().iter().position(is_wanted)?;
        Some(&mut self.waiting[at])
    }
}
