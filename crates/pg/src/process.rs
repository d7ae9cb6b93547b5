//! Processes of this server, by a number that fits into shared memory: the index in PostgreSQL's array of processes, plus
//! 1. When a process has ended, another one may get its number.

use pgrx::pg_sys;

/// Returns the number of this process, which is never 0.
pub fn own_number() -> u32 {
    // SAFETY: reads variables of the process, whose PGPROC stays in that array until it ends.
    let at = unsafe { pg_sys::MyProc.offset_from((*pg_sys::ProcGlobal).allProcs) };
    u32::try_from(at + 1).unwrap_or(0)
}

/// Returns the process of a number.
fn process(number: u32) -> Option<*mut pg_sys::PGPROC> {
    let at = number.checked_sub(1)?;
    // SAFETY: the array lives as long as the server, and the index is within it.
    unsafe {
        let all = &*pg_sys::ProcGlobal;
        (at < all.allProcCount).then(|| all.allProcs.add(at as usize))
    }
}

/// Wakes a process that sleeps in [`wait::sleep`](super::wait::sleep). Allocates nothing and raises no error, so it may be
/// called while a transaction commits. A process that does not sleep looks at its latch once without need.
pub fn wake(number: u32) {
    if let Some(process) = process(number) {
        // SAFETY: a latch in shared memory.
        unsafe { pg_sys::SetLatch(&raw mut (*process).procLatch) };
    }
}

/// Returns the pid of a process, or `None` if no process has this number now.
pub fn pid(number: u32) -> Option<i32> {
    // SAFETY: reads a number that another process may change at any time.
    let pid = unsafe { (&raw const (*process(number)?).pid).read_volatile() };
    (pid != 0).then_some(pid)
}
