//! Errors of calls that the service refuses at the moment.

use claims_model::mode::Mode;

use crate::kernel::error::errors;
use pg::clock::Moment;

errors! {
    /// The reason why a call is not admitted.
    pub enum AdmissionError {
        /// An administrator has set a mode: for the cell `of_cell`, or for all cells if it is `None`.
        Mode { mode: Mode, of_cell: Option<i64>, reason: String, since: Moment, role: String } =>
            ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            (
                "{} in mode {}: {}",
                of_cell.map_or_else(|| "claims are".to_owned(), |cell_id| format!("cell {cell_id} is")),
                mode.name(),
                if mode == Mode::ReadOnly { "only reading works" } else { "no leases can be begun" },
            ),
            detail ("Set by role \"{role}\" at {}: {reason}", since.text()),
            hint (
                "Repeat the call later: an administrator opens it again with claims.set_mode().{}",
                if mode == Mode::ReadOnly { "" } else { " Leases that are outstanding can be settled." },
            );
        AnotherDatabase { cell_id: i64, since: Option<Moment> } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "another database acts as cell {cell_id}",
            detail {
                let copy = "This one is a copy of it, or was restored from a backup, or the service was.";
                since.map(|since| format!("It did so last at {}. {copy}", since.text()))
            },
            hint "If this database is the cell, run claims.adopt_cell() in it; if not, stop it. Nothing was decided.";
        AnotherPlace { cell_id: i64, acted_at: Moment, address: String, own: String, is_outdated: bool } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "another database acts as cell {cell_id}",
            detail {
                let relation = if is_outdated { "and is on a later timeline" } else { "with the same epoch" };
                format!("It acts from {address}, {relation}, and did so last at {}. This one is at {own}.", acted_at.text())
            },
            hint ("{}", if is_outdated {
                "If this database is the cell, run claims.adopt_cell() in it; if not, stop it. Nothing was decided."
            } else {
                "If this database is the cell, stop the other one: this one takes over 30 seconds later, or at once by claims.adopt_cell(). \
                 If it is a copy, stop it. Nothing was decided."
            });
        NotReplicated => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "leases cannot be begun or settled without a synchronous standby",
            detail "claims.require_synchronous is on, and synchronous_standby_names is empty.",
            hint "Repeat the call when an administrator has named a standby there, or has turned the requirement off.";
        PreparedNotReplicated => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "cannot PREPARE a transaction that has begun or settled leases",
            detail "claims.require_synchronous is on, and COMMIT PREPARED would not wait for a standby by itself.",
            hint "Use COMMIT.";
        TooFast { cell_id: i64, per_second: i32, again: Moment } => ERRCODE_CONFIGURATION_LIMIT_EXCEEDED:
            "cell {cell_id} begins leases too fast",
            detail "It may begin {per_second} a second. A fence counts as a begin, and so do a thousand records that are imported or corrected.",
            hint ("Repeat the call in {:.3} s, at {}.", Moment::now().seconds_until(again).max(0.001), again.text());
        TooManyLeases { cell_id: i64, limit: i32 } => ERRCODE_CONFIGURATION_LIMIT_EXCEEDED:
            "cell {cell_id} has too many outstanding leases",
            detail "It may have {limit}.",
            hint "Repeat the call when some of them are settled: the cell's recovery settles what nobody else does.";
        TooManyAdoptions { cell_id: i64, limit: i64 } => ERRCODE_CONFIGURATION_LIMIT_EXCEEDED: "cell {cell_id} is adopted too often",
            detail "A database was adopted for it {limit} times within an hour.",
            hint "Find out which databases act as the cell. Repeat the call later, \
                or have an administrator of the service call claims.present_epoch() with adopt_because.";
        PriorityTooHigh { cell_id: i64, priority: i32, limit: i32 } => ERRCODE_INSUFFICIENT_PRIVILEGE:
            "permission denied: cell {cell_id} may not wait with priority {priority}",
            detail "claims.lease_priority may be at most {limit} for this cell.",
            hint "Lower claims.lease_priority, or have an administrator raise max_priority with claims.set_cell_limits().";
        BatchTooLarge { cell_id: i64, records: usize, limit: i32 } => ERRCODE_CONFIGURATION_LIMIT_EXCEEDED:
            "batch of cell {cell_id} has too many records",
            detail "It has {records} records, {limit} are allowed for this cell.",
            hint "Send it in several calls, which need not wait.";
    }
}

errors! {
    /// The reason why a call cannot rely on the profiles of bucket types.
    pub enum NamingError {
        ProfileChanging => ERRCODE_LOCK_NOT_AVAILABLE: "the profile of a bucket type is being changed",
            hint "Repeat the call when claims.set_profile() has ended; claims.wait_timeout says how long to wait for it.";
    }
}
