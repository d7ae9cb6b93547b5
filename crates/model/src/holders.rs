//! The connections at services that sessions can ask for when they wait for places ([`crate::places`]).

use zerocopy::FromBytes;

use crate::queue::{Process, ServiceKey};

/// Maximum number of connections that can be asked for, for all services together. Further ones close by themselves.
pub const MAX_HOLDERS: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromBytes)]
struct Holder {
    /// 0 for a free entry.
    service: ServiceKey,
    process: Process,
    /// When no call has used the connection for so long, in microseconds, it can be asked for.
    unused_us: u32,
}

/// A connection that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The number that [`crate::places::Places::hold`] has returned.
    pub holder: usize,
    /// Its process, which must close it.
    pub process: Process,
    /// The session that waits for its place, and must be woken.
    pub to_wake: Process,
}

/// The connections, by numbers. All zeros is the state without any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromBytes)]
pub(crate) struct Holders<const HOLDERS: usize>([Holder; HOLDERS]);

impl<const HOLDERS: usize> Holders<HOLDERS> {
    /// Registers a connection. Returns its number, or `None` if there is no room.
    pub fn hold(&mut self, service: ServiceKey, process: Process, unused_us: u32) -> Option<usize> {
        let free = self.0.iter().position(|holder| holder.service == 0)?;
        self.0[free] = Holder { service, process, unused_us };
        Some(free)
    }

    /// Ends a registration.
    pub fn let_go(&mut self, holder: usize) {
        if let Some(holder) = self.0.get_mut(holder) {
            holder.service = 0;
        }
    }

    /// Asks for the connection to a service that no call has used for the longest time. Returns its number and its process.
    pub fn ask(
        &mut self,
        service: ServiceKey,
        now: i64,
        idle_since: impl Fn(usize) -> Option<i64>,
    ) -> Option<(usize, Process)> {
        let can_be_asked = |(number, holder): (usize, &Holder)| {
            let since = if holder.service == service { idle_since(number) } else { None };
            let is_unused = |since: &i64| now.saturating_sub(*since) >= i64::from(holder.unused_us);
            since.filter(is_unused).map(|since| (since, number))
        };
        let (_, number) = self.0.iter().enumerate().filter_map(can_be_asked).min()?;
        Some((number, self.0[number].process))
    }
}
