//! Processes of the cell's server: their memory, whether they exist, and how they died.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

/// Returns the peak memory of a process in bytes, or `None` if it is gone.
pub fn peak_memory(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

pub fn is_there(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie does not count.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

pub fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// Waits until a process is gone. Returns how long that took, or `None` after the limit.
pub fn wait_until_gone(pid: i32, limit: Duration) -> Option<Duration> {
    let started = Instant::now();
    while is_there(pid) {
        if started.elapsed() > limit {
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
    Some(started.elapsed())
}

/// The log of a server, read for crashed processes.
pub struct Log {
    path: PathBuf,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    bytes: u64,
    rest: String,
    crashes: Vec<Crash>,
}

/// A line about a crashed process.
#[derive(Debug, Clone)]
pub struct Crash {
    /// `None` for a PANIC, after which the process dies by a signal.
    pub pid: Option<i32>,
    pub line: String,
}

impl Log {
    pub fn new(path: PathBuf) -> Log {
        Log { path, seen: Mutex::default() }
    }

    /// Returns all crashes so far, in order.
    pub fn crashes(&self) -> Result<Vec<Crash>> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = File::open(&self.path).context("the server's log cannot be read")?;
        file.seek(SeekFrom::Start(seen.bytes))?;
        let mut bytes = Vec::new();
        seen.bytes += file.read_to_end(&mut bytes)? as u64;
        let text = std::mem::take(&mut seen.rest) + &String::from_utf8_lossy(&bytes);
        let (lines, rest) = text.rsplit_once('\n').unwrap_or(("", &text));
        seen.rest = rest.to_owned();
        seen.crashes.extend(lines.lines().filter_map(crash));
        Ok(seen.crashes.clone())
    }
}

fn crash(line: &str) -> Option<Crash> {
    let pid = || line.split_once("(PID ")?.1.split_once(')')?.0.parse().ok();
    let is_crash = ["was terminated by signal", "PANIC:", "TRAP:"].iter().any(|text| line.contains(text));
    is_crash.then(|| Crash { pid: pid(), line: line.to_owned() })
}
