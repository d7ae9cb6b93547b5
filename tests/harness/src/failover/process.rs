//! Processes of the servers' user: starts, finds, stops and kills them.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, wait};

use super::options::Options;

/// The user of the servers, if this program runs as root.
#[derive(Clone, Copy, Debug)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
}

/// Reaps orphans. Postmasters are not children of Patroni. Without this they would remain as zombies, which look alive,
/// if the machine's first process does not reap them.
pub fn adopt_orphans() -> Result<()> {
    set_child_subreaper(Pid::from_raw(1))?;
    thread::spawn(|| {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                _ => thread::sleep(Duration::from_millis(10)),
            }
        }
    });
    Ok(())
}

/// Starts a program in a session of its own, with its output appended to a file. Its parent does not wait for it.
pub fn start(program: &Path, args: &[String], options: &Options, log: &Path) -> Result<i32> {
    let out = File::options().create(true).append(true).open(log).with_context(|| log.display().to_string())?;
    let mut command = Command::new(program);
    command.args(args).current_dir("/").stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).process_group(0);
    command.env("LC_ALL", "C.UTF-8");
    // For libpq, PGPASSWORD for example takes precedence over the password file that Patroni writes.
    std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")).for_each(|(name, _)| {
        command.env_remove(name);
    });
    if let Some(user) = options.user {
        command.gid(user.gid).uid(user.uid);
    }
    let child = command.spawn().with_context(|| format!("{} cannot be started", program.display()))?;
    let pid = i32::try_from(child.id())?;
    // If this program is killed, the script ends the processes of this list.
    writeln!(File::options().create(true).append(true).open(options.dir.join("pids"))?, "{pid}")?;
    Ok(pid)
}

/// Returns whether a process runs. A zombie does not run.
pub fn runs(pid: i32) -> bool {
    parent_of(pid).is_some()
}

/// Returns the parent of a running process.
fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain any character. State and parent follow its last parenthesis.
    let mut rest = stat.rsplit_once(')')?.1.split_whitespace();
    if rest.next()? == "Z" { None } else { rest.next()?.parse().ok() }
}

/// Returns these processes and all their descendants.
pub fn family(roots: &[i32]) -> Vec<i32> {
    let mut found: Vec<i32> = roots.iter().copied().filter(|pid| runs(*pid)).collect();
    let all: Vec<(i32, i32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, parent_of(pid)?)))
        .collect();
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(
            all.iter()
                .filter(|(pid, of)| *of == parent && !found.contains(pid))
                .map(|(pid, _)| *pid)
                .collect::<Vec<_>>(),
        );
        at += 1;
    }
    found
}

pub fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// Sends the signal to the whole family, parents first, until there are no new members.
pub fn signal_family(roots: &[i32], what: Signal) {
    let mut reached: Vec<i32> = Vec::new();
    loop {
        let new: Vec<i32> = family(roots).into_iter().filter(|pid| !reached.contains(pid)).collect();
        if new.is_empty() {
            return;
        }
        new.iter().for_each(|pid| signal(*pid, what));
        reached.extend(new);
    }
}

/// Waits until none of the processes runs. Returns `false` if one still runs at the limit.
pub fn await_end(pids: &[i32], limit: Duration) -> bool {
    let until = std::time::Instant::now() + limit;
    while pids.iter().any(|pid| runs(*pid)) {
        if std::time::Instant::now() > until {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}
