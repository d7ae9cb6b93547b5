//! Waiting for something outside of this server.

use std::time::Duration;

use pgrx::pg_sys;

/// Sleeps; a cancel, a timeout or a shutdown ends it with an error.
pub fn pause(duration: Duration) {
    pg_sys::check_for_interrupts!();
    // The latch counts in milliseconds: shorter pauses are plain sleep, too short for anybody to wait for a cancel.
    if duration < Duration::from_millis(1) {
        std::thread::sleep(duration);
        return;
    }
    let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    // SAFETY: MyLatch is this process' own latch.
    unsafe {
        let milliseconds = std::ffi::c_long::try_from(duration.as_millis()).unwrap_or(std::ffi::c_long::MAX);
        pg_sys::WaitLatch(pg_sys::MyLatch, events as i32, milliseconds, pg_sys::PG_WAIT_EXTENSION);
        pg_sys::ResetLatch(pg_sys::MyLatch);
    }
    pg_sys::check_for_interrupts!();
}

/// Raises a cancel, a timeout or a shutdown that has arrived.
pub fn obey_interrupts() {
    pg_sys::check_for_interrupts!();
}

/// Runs `body`, which must be short: a cancel, a timeout or a shutdown that arrives meanwhile takes effect after it.
pub fn uninterrupted<T>(body: impl FnOnce() -> T) -> T {
    /// The count as it was. An error of Postgres has set it to zero, which it stays then; a panic of Rust has not.
    struct Held(u32);
    impl Drop for Held {
        fn drop(&mut self) {
            // SAFETY: counts in this process' own memory.
            unsafe { pg_sys::InterruptHoldoffCount = pg_sys::InterruptHoldoffCount.min(self.0) };
        }
    }
    // SAFETY: as above.
    let _held = unsafe {
        let held = Held(pg_sys::InterruptHoldoffCount);
        pg_sys::InterruptHoldoffCount += 1;
        held
    };
    body()
}
