//! Errors of expiring claims and requests.

use claims_model::limits::{PAYLOAD_BYTES, PAYLOAD_DEPTH};
use claims_model::problem::shortened;
use uuid::Uuid;

use crate::kernel::error::errors;

const TAKE_AGAIN: &str = "Roll back what was done for the requests, and take requests again.";

errors! {
    /// The reason why a call on expiring claims or requests fails.
    pub enum HoldError {
        /// The token is not the current one of the key, or its claim has expired.
        NotHeld { kind: String, key: String, token: i64 } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            ("{kind} \"{}\" is not held with token {token}", shortened(&key)),
            detail "The claim has expired, was released or was taken over, or was never made.",
            hint "Roll back what was done under it, and acquire the key again.";
        /// The transaction's snapshot shows an older state of an expiring claim.
        StaleHold => ERRCODE_T_R_SERIALIZATION_FAILURE: "could not serialize access to an expiring claim due to concurrent update",
            detail "The claim changed after this transaction took its snapshot.",
            hint "Repeat the transaction.";
        CreateExists { queue: String, entity: String } => ERRCODE_UNIQUE_VIOLATION:
            ("entity \"{}\" has a create request already", shortened(&entity)),
            detail "Queue \"{queue}\" keeps at most one create request of an entity.",
            hint "Send an update, or put a failed create back with claims.retry_requests().";
        /// The payload of a request is too large or too deep for some backends.
        PayloadTooLarge { queue: String, entity: String } => ERRCODE_PROGRAM_LIMIT_EXCEEDED:
            ("payload of a request for entity \"{}\" is too large", shortened(&entity)),
            detail "The payload, for queue \"{queue}\", has more than {PAYLOAD_BYTES} bytes as text, \
                or is nested more than {PAYLOAD_DEPTH} deep.",
            hint "Store the data in a table, and send its key.";
        NothingInHand { process: Uuid } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "process {process} has no request in hand",
            detail "It took none, settled them, took them in a transaction that has ended, or its hold was taken over.",
            hint "{TAKE_AGAIN}";
        HoldBusy => ERRCODE_LOCK_NOT_AVAILABLE: "requests of the process are being extended or settled by another open transaction",
            hint "Repeat the call when that transaction has ended.";
        HoldExpired { process: Uuid, expired: i64, lost: i64 } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "the hold of process {process} has expired",
            detail {
                let others = if lost == 0 { String::new() } else { format!(", and {lost} were taken over") };
                format!("Of the requests that it held, {expired} count as new again{others}.")
            },
            hint "{TAKE_AGAIN}";
    }
}
