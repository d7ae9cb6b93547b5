//! The order of calls that wait for names which leases hold. The queue has a fixed size and no pointers, so that it can
//! be in shared memory behind a lock. Times are microseconds of any one clock that never goes back.
//!
//! - A waiter is registered for the names that it has found held. It is not registered for the other names of its
//!   batch: those that are free are not kept from others.
//! - All waiters have one order, whatever names they wait for, so they cannot wait for each other in a circle. Who
//!   waits for longer goes first. A priority counts like as many seconds of waiting, so that nobody starves.
//! - A call that does not wait, and one that begins to wait, comes after all waiters who precede it. It must not try to
//!   take a name for which one of them is registered, even if the name is free.
//! - A name that has come free is kept for its first waiter for [`KEPT_US`]. After that the waiter is no longer
//!   registered for the name, because it may be dead. If it is alive, it registers again when it looks, and has its old
//!   position.
//! - Only the first waiter is woken when a name comes free. It wakes the next one when it leaves, or when it registers
//!   for other names. Waiters that can never have the name now are woken, too, all at once: those that create it, if it
//!   has an owner, and the others if it has none. If each of them waited for its turn to say so, the waiter behind them
//!   would wait for all of them.
//! - Nobody relies on being woken: every waiter looks again after [`POLL_US`].

mod name;
mod order;
mod queue;
mod seen;
mod waiter;

pub use name::{QueuedName, quick_hash};
pub use order::Before;
pub use queue::{Effects, WaiterSlot, WaitingQueue};
pub use seen::{SeenWaiter, seen};
pub use waiter::{Arrival, KEPT_US, POLL_US, PRIORITY_US, Waiter, Wish};
