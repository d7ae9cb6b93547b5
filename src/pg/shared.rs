//! Shared memory. It exists only if the library is in `shared_preload_libraries`, and is zero when the server starts.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use pgrx::pg_guard;
use pgrx::pg_sys;

/// Types that may be in shared memory.
///
/// # Safety
/// Several processes may read and write a value concurrently; it refers to no other memory; all zeros is a valid value.
pub unsafe trait Shareable: Sync + 'static {}

// SAFETY: atomics need no lock, hold no pointers, and zero is a value of each.
unsafe impl Shareable for AtomicBool {}
unsafe impl Shareable for AtomicI32 {}
unsafe impl Shareable for AtomicI64 {}
unsafe impl Shareable for AtomicU32 {}
unsafe impl Shareable for AtomicU64 {}
// SAFETY: as their elements.
unsafe impl<T: Shareable, const N: usize> Shareable for [T; N] {}

/// Declares a struct that may be in shared memory, because each of its fields may.
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
pub(crate) use shareable;

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

/// What may lie in shared memory behind a lock: values that need no other memory, and for which zeros are a value.
///
/// # Safety
/// As said.
pub unsafe trait Plain: Copy + 'static {}

// SAFETY: numbers.
unsafe impl Plain for u32 {}
// SAFETY: numbers.
unsafe impl Plain for u64 {}
// SAFETY: numbers.
unsafe impl Plain for i64 {}
// SAFETY: as their elements.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}
// SAFETY: numbers and arrays of them; zeros are a closed breaker.
unsafe impl Plain for claims_model::breaker::Breaker {}

/// Declares a struct that may lie behind a lock, because each of its fields may.
macro_rules! plain {
    ($(#[$of_type:meta])* $visible:vis struct $name:ident { $($(#[$of_field:meta])* $field_visible:vis $field:ident: $type:ty,)* }) => {
        $(#[$of_type])*
        #[derive(Clone, Copy)]
        $visible struct $name { $($(#[$of_field])* $field_visible $field: $type,)* }

        const _: () = {
            const fn may_be_shared<T: $crate::pg::shared::Plain>() {}
            $(may_be_shared::<$type>();)*
        };
        // SAFETY: all its fields are.
        #[allow(unsafe_code)]
        unsafe impl $crate::pg::shared::Plain for $name {}
    };
}
pub(crate) use plain;

/// One value in shared memory, behind a lock of its own. Whoever has the lock must not come back for it.
pub struct Locked<T: Plain> {
    name: &'static CStr,
    place: AtomicPtr<UnsafeCell<T>>,
    lock: AtomicPtr<pg_sys::LWLock>,
}

/// Lets go of a lock, also where the one who has it panics.
struct HeldLock(*mut pg_sys::LWLock);

impl HeldLock {
    fn take(lock: *mut pg_sys::LWLock, mode: pg_sys::LWLockMode::Type) -> Self {
        // SAFETY: a lock of shared memory, which stays until the process ends.
        unsafe { pg_sys::LWLockAcquire(lock, mode) };
        HeldLock(lock)
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        // SAFETY: taken above, and let go of nowhere else: an error of Postgres' comes by here before it ends the transaction.
        unsafe { pg_sys::LWLockRelease(self.0) };
    }
}

impl<T: Plain> Locked<T> {
    pub const fn new(name: &'static CStr) -> Self {
        Locked { name, place: AtomicPtr::new(std::ptr::null_mut()), lock: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Looks at the value, beside others who do. `None`: the library is not preloaded.
    pub fn read<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        let (place, lock) = self.attached()?;
        let _held = HeldLock::take(lock, pg_sys::LWLockMode::LW_SHARED);
        // SAFETY: whoever changes it has the lock alone.
        Some(look(unsafe { &*place.get() }))
    }

    /// Changes the value, alone. `None`: the library is not preloaded.
    pub fn write<R>(&self, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        let (place, lock) = self.attached()?;
        let _held = HeldLock::take(lock, pg_sys::LWLockMode::LW_EXCLUSIVE);
        // SAFETY: nobody else has the lock.
        Some(change(unsafe { &mut *place.get() }))
    }

    fn attached(&self) -> Option<(&'static UnsafeCell<T>, *mut pg_sys::LWLock)> {
        // SAFETY: null, or set by `attach` to memory that stays until the process ends.
        let place = unsafe { self.place.load(Ordering::Relaxed).as_ref() }?;
        Some((place, self.lock.load(Ordering::Relaxed)))
    }
}

/// A value that is to be allocated in shared memory.
pub trait Area: Sync {
    /// Asks for its memory, and for its lock.
    fn request(&self);
    /// Finds it there, or allocates it.
    fn attach(&self);
}

impl<T: Shareable> Area for Shared<T> {
    fn request(&self) {
        request_memory(size_of::<T>());
    }

    fn attach(&self) {
        self.place.store(find_or_make(self.name), Ordering::Relaxed);
    }
}

impl<T: Plain> Area for Locked<T> {
    fn request(&self) {
        request_memory(size_of::<T>());
        // SAFETY: called by the request hook; the name is copied.
        unsafe { pg_sys::RequestNamedLWLockTranche(self.name.as_ptr(), 1) };
    }

    fn attach(&self) {
        // SAFETY: asked for above; one lock.
        let lock = unsafe { &raw mut (*pg_sys::GetNamedLWLockTranche(self.name.as_ptr())).lock };
        self.lock.store(lock, Ordering::Relaxed);
        self.place.store(find_or_make(self.name), Ordering::Relaxed);
    }
}

fn request_memory(size: usize) {
    // SAFETY: only from the request hook may memory be asked for, and it is.
    unsafe { pg_sys::RequestAddinShmemSpace(size + pg_sys::PG_CACHE_LINE_SIZE as usize) };
}

/// The place of a value for which zeros are one.
fn find_or_make<T>(name: &CStr) -> *mut T {
    let mut found = false;
    // SAFETY: called by the startup hook, under its lock. What is new is set to zeros before anybody else sees it. The
    // result is aligned to a cache line.
    unsafe {
        let place = pg_sys::ShmemInitStruct(name.as_ptr(), size_of::<T>(), &mut found).cast::<T>();
        if !found {
            place.write_bytes(0, 1);
        }
        place
    }
}

/// Number of Postgres' lock AddinShmemInitLock among its named locks, in all supported versions.
const ADDIN_SHMEM_INIT_LOCK: usize = 21;

static AREAS: OnceLock<&'static [&'static [&'static dyn Area]]> = OnceLock::new();
static PREVIOUS_REQUEST: OnceLock<pg_sys::shmem_request_hook_type> = OnceLock::new();
static PREVIOUS_STARTUP: OnceLock<pg_sys::shmem_startup_hook_type> = OnceLock::new();

/// Whether the server is starting, and loads this library because of `shared_preload_libraries`.
pub fn is_being_preloaded() -> bool {
    // SAFETY: reads a variable of the process.
    unsafe { pg_sys::process_shared_preload_libraries_in_progress }
}

/// Reserves shared memory for these. Called once, while the library is being preloaded.
pub fn reserve(areas: &'static [&'static [&'static dyn Area]]) {
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

fn areas() -> impl Iterator<Item = &'static dyn Area> {
    AREAS.get().copied().unwrap_or_default().iter().copied().flatten().copied()
}

#[pg_guard]
unsafe extern "C-unwind" fn request() {
    if let Some(Some(previous)) = PREVIOUS_REQUEST.get() {
        // SAFETY: whoever set the hook before is called as Postgres would have called it.
        unsafe { previous() };
    }
    areas().for_each(|area| area.request());
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
        areas().for_each(|area| area.attach());
        pg_sys::LWLockRelease(lock);
    }
}
