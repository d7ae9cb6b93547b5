//! Shared memory. It exists only if the library is in `shared_preload_libraries`, and is zero when the server starts.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use pgrx::{pg_guard, pg_sys};
pub use zerocopy::FromBytes;

/// Types whose values may be in shared memory without a lock. Several processes read and write a value concurrently
/// (`Sync`: atomics). All zeros is a valid value, and a value refers to no other memory (`FromBytes`).
pub trait Shareable: FromBytes + Sync + 'static {}
impl<T: FromBytes + Sync + 'static> Shareable for T {}

/// A value in shared memory.
pub struct Shared<T: Shareable> {
    name: &'static CStr,
    address: AtomicPtr<T>,
}

impl<T: Shareable> Shared<T> {
    pub const fn new(name: &'static CStr) -> Self {
        Shared { name, address: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Returns the value, or `None` if the library is not preloaded.
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or set by `attach` to memory that lives until the process ends and was zero at first; see
        // `Shareable`.
        unsafe { self.address.load(Ordering::Relaxed).as_ref() }
    }
}

/// Types whose values may be in shared memory behind a lock. All zeros is a valid value, and a value refers to no other
/// memory.
pub trait Plain: FromBytes + Copy + 'static {}
impl<T: FromBytes + Copy + 'static> Plain for T {}

/// A value in shared memory, behind a lock of its own. A process that has the lock must not take it again.
pub struct Locked<T: Plain> {
    name: &'static CStr,
    address: AtomicPtr<UnsafeCell<T>>,
    lock: AtomicPtr<pg_sys::LWLock>,
}

/// A guard that releases a lock, also after a panic.
struct HeldLock(*mut pg_sys::LWLock);

impl HeldLock {
    fn take(lock: *mut pg_sys::LWLock, mode: pg_sys::LWLockMode::Type) -> Self {
        // SAFETY: the lock is in shared memory, which lives until the process ends.
        unsafe { pg_sys::LWLockAcquire(lock, mode) };
        HeldLock(lock)
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        // SAFETY: the lock was acquired, and is released only here. An error of PostgreSQL drops this guard before it
        // ends the transaction.
        unsafe { pg_sys::LWLockRelease(self.0) };
    }
}

impl<T: Plain> Locked<T> {
    pub const fn new(name: &'static CStr) -> Self {
        Locked { name, address: AtomicPtr::new(std::ptr::null_mut()), lock: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Reads the value under the shared lock. Returns `None` if the library is not preloaded.
    pub fn read<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        let (address, lock) = self.attached()?;
        let _held = HeldLock::take(lock, pg_sys::LWLockMode::LW_SHARED);
        // SAFETY: a process that changes the value has the exclusive lock.
        Some(look(unsafe { &*address.get() }))
    }

    /// Changes the value under the exclusive lock. Returns `None` if the library is not preloaded.
    pub fn write<R>(&self, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        let (address, lock) = self.attached()?;
        let _held = HeldLock::take(lock, pg_sys::LWLockMode::LW_EXCLUSIVE);
        // SAFETY: no other process has the lock.
        Some(change(unsafe { &mut *address.get() }))
    }

    fn attached(&self) -> Option<(&'static UnsafeCell<T>, *mut pg_sys::LWLock)> {
        // SAFETY: null, or set by `attach` to memory that lives until the process ends.
        let address = unsafe { self.address.load(Ordering::Relaxed).as_ref() }?;
        Some((address, self.lock.load(Ordering::Relaxed)))
    }
}

/// A value that is allocated in shared memory.
pub trait Area: Sync {
    /// Requests its memory and its lock.
    fn request(&self);
    /// Finds it in shared memory, or allocates it.
    fn attach(&self);
}

impl<T: Shareable> Area for Shared<T> {
    fn request(&self) {
        request_memory(size_of::<T>());
    }

    fn attach(&self) {
        self.address.store(find_or_make(self.name), Ordering::Relaxed);
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
        self.address.store(find_or_make(self.name), Ordering::Relaxed);
    }
}

fn request_memory(size: usize) {
    // SAFETY: called by the request hook, the only place where memory may be requested.
    unsafe { pg_sys::RequestAddinShmemSpace(size + pg_sys::PG_CACHE_LINE_SIZE as usize) };
}

/// Returns the address of a value, which is zero when it is new.
fn find_or_make<T>(name: &CStr) -> *mut T {
    let mut found = false;
    // SAFETY: called by the startup hook, under its lock. New memory is zeroed before another process sees it. The
    // result is aligned to a cache line.
    unsafe {
        let address = pg_sys::ShmemInitStruct(name.as_ptr(), size_of::<T>(), &mut found).cast::<T>();
        if !found {
            address.write_bytes(0, 1);
        }
        address
    }
}

/// The number of PostgreSQL's AddinShmemInitLock among the individual LWLocks, in all supported versions.
const ADDIN_SHMEM_INIT_LOCK: usize = 21;

static AREAS: OnceLock<&'static [&'static [&'static dyn Area]]> = OnceLock::new();
static PREVIOUS_REQUEST: OnceLock<pg_sys::shmem_request_hook_type> = OnceLock::new();
static PREVIOUS_STARTUP: OnceLock<pg_sys::shmem_startup_hook_type> = OnceLock::new();

/// Returns whether the server is starting, and loads this library because of `shared_preload_libraries`.
pub fn is_being_preloaded() -> bool {
    // SAFETY: reads a variable of the process.
    unsafe { pg_sys::process_shared_preload_libraries_in_progress }
}

/// Reserves shared memory for these values. Called once, while the library is being preloaded.
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
        // SAFETY: the previous hook is called as PostgreSQL would call it.
        unsafe { previous() };
    }
    areas().for_each(|area| area.request());
}

#[pg_guard]
unsafe extern "C-unwind" fn startup() {
    if let Some(Some(previous)) = PREVIOUS_STARTUP.get() {
        // SAFETY: the previous hook is called as PostgreSQL would call it.
        unsafe { previous() };
    }
    // SAFETY: the lock is PostgreSQL's own for this purpose.
    unsafe {
        let lock = &raw mut (*pg_sys::MainLWLockArray.add(ADDIN_SHMEM_INIT_LOCK)).lock;
        pg_sys::LWLockAcquire(lock, pg_sys::LWLockMode::LW_EXCLUSIVE);
        areas().for_each(|area| area.attach());
        pg_sys::LWLockRelease(lock);
    }
}
