//! Errors of the service half of verification.

use crate::kernel::error::errors;

errors! {
    /// The reason why a range cannot be compared.
    pub enum RangeError {
        /// A range has more claims than one comparison may have.
        TooLarge { limit: usize } => ERRCODE_PROGRAM_LIMIT_EXCEEDED: "range has too many claims",
            detail "At most {limit} claims can be compared in one call.",
            hint "Narrow the range with source_id_gt and source_id_lte.";
    }
}
