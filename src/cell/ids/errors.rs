//! Errors of sequences that draw from id spaces.

use crate::kernel::error::errors;

errors! {
    /// The reason why ids are not used.
    pub enum IdsError {
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
    }
}
