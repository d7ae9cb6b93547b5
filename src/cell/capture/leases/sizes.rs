//! The sizes of large leases that this session has begun: `finish` gives the service more time to commit them.

use std::cell::RefCell;
use std::collections::VecDeque;

use uuid::Uuid;

/// Number of records from which a lease is noted. The others need no more time than a lease of one record.
const LARGE: usize = 1001;
/// Number of leases that a session remembers, the newest ones.
const REMEMBERED: usize = 1000;

thread_local! {
    static SIZES: RefCell<VecDeque<(Uuid, usize)>> = const { RefCell::new(VecDeque::new()) };
}

/// Notes the number of records of a lease.
pub fn note(lease: Uuid, records: usize) {
    if records < LARGE {
        return;
    }
    SIZES.with_borrow_mut(|all| {
        if all.len() == REMEMBERED {
            all.pop_front();
        }
        all.push_back((lease, records));
    });
}

/// Returns the number of records of a lease, or 1 if it is not noted.
pub fn of(lease: Uuid) -> usize {
    SIZES.with_borrow(|all| all.iter().rev().find(|(noted, _)| *noted == lease).map_or(1, |(_, records)| *records))
}
