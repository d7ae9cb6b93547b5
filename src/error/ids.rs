//! Errors of id spaces and of the sequences that draw from them.

use claims_model::problem::shortened;

use super::declare::{errors, text};

errors! {
    /// The reason why ids are not given or not used.
    pub enum IdsError {
        SpaceExists { name: String } => ERRCODE_DUPLICATE_OBJECT: ("id space \"{}\" already exists", shortened(&name)),
            hint "Cells lease ranges of it with claims.lease_id_range().";
        UnknownSpace { name: String } => ERRCODE_UNDEFINED_OBJECT: ("id space \"{}\" does not exist", shortened(&name)),
            hint "Have an administrator of the service call claims.add_id_space().";
        /// The space has no ids left that the call may have.
        SpaceExhausted { name: String, last_id: i64 } => ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED:
            ("id space \"{}\" has no more ids", shortened(&name)),
            detail "The call may have ids up to {last_id}.",
            hint "A space cannot grow. Add another one with claims.add_id_space(), above the ids that are in use, \
                and have the sequences use that.";
        RangeTaken { first_id: i64, last_id: i64, cell_id: i64 } => ERRCODE_EXCLUSION_VIOLATION:
            "ids {first_id} to {last_id} are not free",
            detail "Cell {cell_id} has some of them.",
            hint "If both cells have used them, rows of one of them need other ids before customers move.";
        TooManyBlocks { cell_id: i64, limit: i64 } => ERRCODE_CONFIGURATION_LIMIT_EXCEEDED:
            "cell {cell_id} leases too many ranges of ids",
            detail "It may begin {limit} blocks of an id space within an hour.",
            hint "Repeat the call later, or lease larger ranges.";
        NotASequence { name: String } => ERRCODE_WRONG_OBJECT_TYPE: "\"{name}\" is not a sequence",
            hint "pg_get_serial_sequence() names the sequence of a column.";
        NoSuchSequence => ERRCODE_UNDEFINED_TABLE: "sequence does not exist";
        /// A crash resets an unlogged sequence, and a temporary one is not there for the worker.
        NotPermanent { name: String } => ERRCODE_WRONG_OBJECT_TYPE: "sequence \"{name}\" is temporary or unlogged",
            hint "A crash resets such a sequence, so that it draws ids again. Make it permanent with ALTER SEQUENCE ... SET LOGGED.";
        Descends { name: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "sequence \"{name}\" counts down",
            hint "Ranges are drawn upward: ALTER SEQUENCE ... INCREMENT 1.";
        NotInUse { name: String } => ERRCODE_UNDEFINED_OBJECT: "sequence \"{name}\" uses no id space";
        Altered { name: String, id_range: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "sequence \"{name}\" does not fit its range of ids",
            detail "It should count from {id_range} without CYCLE, and somebody has altered that.",
            hint "Find out which ids it has drawn, then have its owner call claims.use_id_space() again, which gives it new ranges.";
        /// The service has no record of a range.
        Unknown { name: String, id_range: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "the service does not know the ids of sequence \"{name}\"",
            detail "They are {id_range}. The service was restored from a backup that is older, or is another one.",
            hint "Have an administrator of the service call claims.restore_id_range() for them, before other cells lease ranges.";
        /// The sequence could not be locked in time.
        SequenceBusy { name: String } => ERRCODE_LOCK_NOT_AVAILABLE:
            "sequence \"{name}\" is in use by open transactions",
            detail "Its next range does not follow the last one, so it must be locked for a moment.",
            hint "Repeat the call; the background worker does.";
    }
}
