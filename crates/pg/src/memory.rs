//! Memory contexts of this extension.

use pgrx::pg_sys;

/// Runs `body` in a memory context that is deleted when it ends. Its result lives in Rust's memory, and does not refer to the context.
///
/// The code of hooks runs in whatever context is in force. At a COMMIT in a procedure that is one which lives until the procedure ends.
pub fn in_temporary<T>(body: impl FnOnce() -> T) -> T {
    Memory::new().with(body)
}

/// A memory context that is deleted when this value is dropped.
pub(super) struct Memory(pg_sys::MemoryContext);

impl Memory {
    pub(super) fn new() -> Self {
        // SAFETY: the parent context lives as long as the process, so nothing else deletes this one.
        Memory(unsafe {
            pg_sys::AllocSetContextCreateInternal(
                pg_sys::TopMemoryContext,
                c"claims".as_ptr(),
                pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
                pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
                pg_sys::ALLOCSET_SMALL_MAXSIZE as usize,
            )
        })
    }

    /// Runs a call that allocates in the context.
    pub(super) fn with<T>(&self, call: impl FnOnce() -> T) -> T {
        /// A guard that switches back to the previous context, also after an error.
        struct Back(pg_sys::MemoryContext);
        impl Drop for Back {
            fn drop(&mut self) {
                // SAFETY: it was the one in force.
                unsafe { pg_sys::MemoryContextSwitchTo(self.0) };
            }
        }
        // SAFETY: the context is there.
        let _back = Back(unsafe { pg_sys::MemoryContextSwitchTo(self.0) });
        call()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: nothing refers to its memory, and it is not the current context (see `with`).
        unsafe { pg_sys::MemoryContextDelete(self.0) };
    }
}
