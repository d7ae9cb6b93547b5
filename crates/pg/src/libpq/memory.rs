//! The memory that libpq uses.
//!
//! libpq reads a whole message before it returns any part of it. It has no limit below two gigabytes, does not report
//! its memory, and allocates the memory as soon as it has read the message's length. While a process waits for an
//! answer, nothing else allocates memory in it. So the memory of the process is checked each time before libpq may read
//! more.

/// The memory of this process at one time, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessMemory(usize);

impl ProcessMemory {
    pub(super) fn now() -> Self {
        ProcessMemory(taken())
    }

    /// Returns the bytes by which it has grown since.
    pub(super) fn growth(self) -> usize {
        taken().saturating_sub(self.0)
    }
}

/// Returns the bytes of all mapped memory, whether it was written or not. Returns 0 if the system does not report it.
#[cfg(target_os = "linux")]
fn taken() -> usize {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use pgrx::pg_sys;

    thread_local! {
        /// The file stays open as long as the process lives. Opening it each time would take longer than reading it.
        static PAGES: Option<File> = {
            let file = File::open("/proc/self/statm").ok();
            if file.is_some() {
                // SAFETY: counts a file descriptor that is never closed.
                unsafe { pg_sys::ReserveExternalFD() };
            }
            file
        };
    }
    PAGES.with(|pages| {
        let mut text = [0; 32];
        let count = pages.as_ref().and_then(|pages| pages.read_at(&mut text, 0).ok()).unwrap_or(0);
        let first = text[..count].split(|byte| *byte == b' ').next().unwrap_or_default();
        let number = std::str::from_utf8(first).ok().and_then(|first| first.parse::<usize>().ok()).unwrap_or(0);
        number * page_size()
    })
}

/// Returns the peak resident memory, which the standards define.
#[cfg(not(target_os = "linux"))]
fn taken() -> usize {
    // The unit of ru_maxrss.
    const UNIT: usize = if cfg!(target_vendor = "apple") { 1 } else { 1024 };
    // SAFETY: zero is valid for the struct, which the call fills in.
    let largest = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage.ru_maxrss
    };
    usize::try_from(largest).unwrap_or(0).saturating_mul(UNIT)
}

#[cfg(target_os = "linux")]
fn page_size() -> usize {
    // SAFETY: reads a constant of the system.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}
