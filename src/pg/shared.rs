//! Shared memory: what all sessions of a server see of each other without a table. It is there only where the library is
//! in `shared_preload_libraries`, and begins as zeros at each start of the server.

use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use pgrx::pg_guard;
use pgrx::pg_sys;

/// What may lie in shared memory: values that several processes may read and write at once, that need no other memory, and
/// for which zeros are a value.
///
/// # Safety
/// As said.
pub unsafe trait Shareable: Sync + 'static {}

// SAFETY: atomics need no lock, hold no pointers, and zero is a value of each.
unsafe impl Shareable for AtomicBool {}
unsafe impl Shareable for AtomicI32 {}
unsafe impl Shareable for AtomicI64 {}
unsafe impl Shareable for AtomicU32 {}
unsafe impl Shareable for AtomicU64 {}
// SAFETY: as their elements.
unsafe impl<T: Shareable, const N: usize> Shareable for [T; N] {}

/// Declares a struct that may lie in shared memory, because each of its fields may.
#[macro_export]
macro_rules! shareable {
    ($(#[$of_type:meta])* $visible:vis struct $name:ident { $($(#[$of_field:meta])* $field_visible:vis $field:ident: $type:ty,)* }) => {
        $(#[$of_type])*
        $visible struct $name { $($(#[$of_field])* $field_visible $field: $type,)* }

        const _: () = {
            const fn may_be_shared<T: $crate::pg::shared::Shareable>() {}
            $(may_be_shared::<$type>();)*
        };
        // SAFETY: all its fields are.
        #[allow(unsafe_code)]
        unsafe impl $crate::pg::shared::Shareable for $name {}
    };
}

/// One value in shared memory.
pub struct Shared<T: Shareable> {
    name: &'static CStr,
    place: AtomicPtr<T>,
}

impl<T: Shareable> Shared<T> {
    pub const fn new(name: &'static CStr) -> Self {
        Shared { name, place: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// `None`: the library is not preloaded.
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or set by `attach` to memory that stays until the process ends; see `Shareable`.
        unsafe { self.place.load(Ordering::Relaxed).as_ref() }
    }
}

/// A value that is to be put into shared memory.
pub trait Area: Sync {
    fn size(&self) -> usize;
    /// Finds its place there, or makes it.
    fn attach(&self);
}

impl<T: Shareable> Area for Shared<T> {
    fn size(&self) -> usize {
        size_of::<T>()
    }

    fn attach(&self) {
        let mut found = false;
        // SAFETY: called by the startup hook, under its lock. What is new is set to zeros before anybody else sees it. The
        // result is aligned to a cache line.
        unsafe {
            let place = pg_sys::ShmemInitStruct(self.name.as_ptr(), size_of::<T>(), &mut found).cast::<T>();
            if !found {
                place.write_bytes(0, 1);
            }
            self.place.store(place, Ordering::Relaxed);
        }
    }
}

/// Number of Postgres' lock AddinShmemInitLock among its named locks, in all supported versions.
const ADDIN_SHMEM_INIT_LOCK: usize = 21;

static AREAS: OnceLock<&'static [&'static dyn Area]> = OnceLock::new();
static PREVIOUS_REQUEST: OnceLock<pg_sys::shmem_request_hook_type> = OnceLock::new();
static PREVIOUS_STARTUP: OnceLock<pg_sys::shmem_startup_hook_type> = OnceLock::new();

/// Whether the server is starting, and loads this library because of `shared_preload_libraries`.
pub fn is_being_preloaded() -> bool {
    // SAFETY: reads a variable of the process.
    unsafe { pg_sys::process_shared_preload_libraries_in_progress }
}

/// Puts these into shared memory. Called once, while the library is being preloaded.
pub fn reserve(areas: &'static [&'static dyn Area]) {
    if AREAS.set(areas).is_err() {
        return;
    }
    // SAFETY: the postmaster is single-threaded; the hooks live as long as the library, which is never unloaded.
    unsafe {
        let _ = PREVIOUS_REQUEST.set(pg_sys::shmem_request_hook);
        pg_sys::shmem_request_hook = Some(request);
        let _ = PREVIOUS_STARTUP.set(pg_sys::shmem_startup_hook);
        pg_sys::shmem_startup_hook = Some(startup);
    }
}

fn areas() -> &'static [&'static dyn Area] {
    AREAS.get().copied().unwrap_or_default()
}

#[pg_guard]
unsafe extern "C-unwind" fn request() {
    if let Some(Some(previous)) = PREVIOUS_REQUEST.get() {
        // SAFETY: whoever set the hook before is called as Postgres would have called it.
        unsafe { previous() };
    }
    for area in areas() {
        // SAFETY: only from this hook may memory be asked for, and it is.
        unsafe { pg_sys::RequestAddinShmemSpace(area.size() + pg_sys::PG_CACHE_LINE_SIZE as usize) };
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn startup() {
    if let Some(Some(previous)) = PREVIOUS_STARTUP.get() {
        // SAFETY: as above.
        unsafe { previous() };
    }
    // SAFETY: the lock is Postgres' own for this purpose.
    unsafe {
        let lock = &raw mut (*pg_sys::MainLWLockArray.add(ADDIN_SHMEM_INIT_LOCK)).lock;
        pg_sys::LWLockAcquire(lock, pg_sys::LWLockMode::LW_EXCLUSIVE);
        areas().iter().for_each(|area| area.attach());
        pg_sys::LWLockRelease(lock);
    }
}
