//! The laws that hold whatever a service answers.

use std::time::Duration;

/// The memory that a process may use beyond what it used before.
pub const MEMORY: u64 = 200 << 20;

/// How late a cell may be on an idle machine.
const LATE: Duration = Duration::from_millis(100);
/// How soon a process must obey a cancel or a termination.
const OBEDIENCE: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Law {
    NoCrash,
    NoHang,
    Punctual,
    Obedient,
    Memory,
    Sqlstate,
    NotTaken,
    Accepted,
    NoWrongCommit,
    NothingForgotten,
    SessionLives,
    NoOtherAnswer,
    OrderAfterwards,
    OnlyOwnIds,
    NothingOverlooked,
    Told,
}

impl Law {
    pub fn text(self) -> &'static str {
        match self {
            Law::NoCrash => "no process crashes",
            Law::NoHang => "no call hangs",
            Law::Punctual => "no call is late",
            Law::Obedient => "cancels are obeyed",
            Law::Memory => "memory is bounded",
            Law::Sqlstate => "errors have a proper SQLSTATE",
            Law::NotTaken => "only answers are taken for answers",
            Law::Accepted => "honest answers are accepted",
            Law::NoWrongCommit => "nothing is saved without a claim",
            Law::NothingForgotten => "what is not settled is tracked",
            Law::SessionLives => "the session goes on",
            Law::NoOtherAnswer => "each call has its own answer",
            Law::OrderAfterwards => "honesty restores order",
            Law::OnlyOwnIds => "no id is drawn that was not leased, and none twice",
            Law::NothingOverlooked => "no row without a claim is overlooked",
            Law::Told => "the lie is told",
        }
    }

    /// Returns whether a busy machine may break the law by chance: nothing came in time, not even the truth, or the lie was not
    /// told.
    pub fn is_of_time(self) -> bool {
        matches!(self, Law::Punctual | Law::Obedient | Law::Accepted | Law::Told)
    }
}

/// A broken law, and how it was broken.
#[derive(Debug, Clone)]
pub struct Breach {
    pub law: Law,
    pub how: String,
}

impl Breach {
    pub fn new(law: Law, how: impl Into<String>) -> Breach {
        Breach { law, how: how.into() }
    }
}

/// The allowance for a busy machine: its lag, and the duration of an honest call.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    pub lag: Duration,
    pub honest_call: Duration,
}

impl Allowance {
    fn of_machine(self) -> Duration {
        20 * self.lag + 4 * self.honest_call
    }

    /// Returns how late a call may be.
    pub fn late(self) -> Duration {
        LATE + self.of_machine()
    }

    /// Returns how long a process may take to obey.
    pub fn obedience(self) -> Duration {
        OBEDIENCE + self.of_machine()
    }
}

/// Returns whether an error may have this SQLSTATE: one that says that something is wrong, and not that the extension
/// is.
pub fn is_proper(sqlstate: &str) -> bool {
    let is_one = sqlstate.len() == 5 && sqlstate.bytes().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase());
    is_one && sqlstate != "XX000" && !["00", "01", "02"].contains(&&sqlstate[..2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proper_sqlstate_is_of_an_error() {
        let proper = ["08P01", "HV000", "57014", "23505", "ZZZZZ"];
        assert!(proper.into_iter().all(is_proper));
        let improper = ["XX000", "00000", "01000", "02000", "0800", "080011", "hv000", "%s%n\\", ""];
        assert!(!improper.into_iter().any(is_proper));
    }
}
