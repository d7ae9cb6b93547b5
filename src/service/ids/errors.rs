//! Errors of id spaces.

use claims_model::problem::shortened;

use crate::kernel::error::errors;
use pg::clock::Moment;

errors! {
    /// The reason why ids are not given.
    pub enum IdSpaceError {
        SpaceExists { name: String, first_id: i64, last_id: i64 } => ERRCODE_DUPLICATE_OBJECT:
            ("id space \"{}\" already exists", shortened(&name)),
            detail "It has ids {first_id} to {last_id}.",
            hint "A call with a larger last_id lets it grow, one with another max_range or ranges_per_day changes these. \
                Its first_id and block_size stay as they are.";
        /// The background process does not see the space.
        SpaceUncommitted { name: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            ("id space \"{}\" was changed in this transaction", shortened(&name)),
            hint "Commit that before you lease a range: ranges are given in a transaction of their own.";
        SpaceBusy { name: String } => ERRCODE_LOCK_NOT_AVAILABLE: ("id space \"{}\" is busy", shortened(&name)),
            detail "No range was leased.",
            hint "Repeat the call. If it fails again, an administrator's transaction may have locked the space.";
        NoProcess => ERRCODE_CONFIGURATION_LIMIT_EXCEEDED: "no background worker can be started",
            detail "A range of ids is given by a background process, so that it is given for good before the caller commits.",
            hint "Repeat the call, or raise max_worker_processes.";
        UnknownSpace { name: String } => ERRCODE_UNDEFINED_OBJECT: ("id space \"{}\" does not exist", shortened(&name)),
            hint "Have an administrator of the service call claims.add_id_space().";
        /// The space has no ids left that the call may have.
        SpaceExhausted { name: String, last_id: i64 } => ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED:
            ("id space \"{}\" has no more ids", shortened(&name)),
            detail "The call may have ids up to {last_id}.",
            hint "An administrator of the service lets it grow by claims.add_id_space() with a larger last_id, \
                or adds another one above the ids that are in use.";
        RangeTaken { first_id: i64, last_id: i64, cell_id: i64 } => ERRCODE_EXCLUSION_VIOLATION:
            "ids {first_id} to {last_id} are not free",
            detail "Cell {cell_id} has some of them.",
            hint "If both cells have used them, rows of one of them need other ids before customers move.";
        RangeTooLarge { cell_id: i64, name: String, size: i64, limit: i64 } => ERRCODE_CONFIGURATION_LIMIT_EXCEEDED:
            "cell {cell_id} asks for too many ids at once",
            detail ("It asks for {size}, and one range of id space \"{}\" has at most {limit}.", shortened(&name)),
            hint "Ask for fewer, or for as many as are allowed with or_less. \
                An administrator of the service raises max_range with claims.add_id_space().";
        TooManyRanges { cell_id: i64, name: String, limit: i32, again: Moment } => ERRCODE_CONFIGURATION_LIMIT_EXCEEDED:
            "cell {cell_id} leases too many ranges of ids",
            detail ("It may lease {limit} of id space \"{}\" within 24 hours.", shortened(&name)),
            hint (
                "Repeat the call in {:.3} s, at {}. An administrator of the service raises ranges_per_day with claims.add_id_space().",
                Moment::now().seconds_until(again).max(0.001),
                again.text(),
            );
    }
}
