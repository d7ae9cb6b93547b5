//! Errors of expiring claims and requests.

use claims_model::problem::shortened;
use pgrx::PgSqlErrorCode as Code;
use uuid::Uuid;

use super::text::{Text, stale};
use claims_model::limits::{PAYLOAD_BYTES, PAYLOAD_DEPTH};

/// The reason why a call on expiring claims or requests fails.
#[derive(Debug)]
pub enum HoldError {
    /// The token is not the current one of the key, or its claim has expired.
    NotHeld { kind: String, key: String, token: i64 },
    /// The transaction's snapshot shows an older state of an expiring claim.
    StaleHold,
    /// The entity already has a create request.
    CreateExists { queue: String, entity: String },
    /// The payload of a request is too large or too deep for some backends.
    PayloadTooLarge { queue: String, entity: String },
    /// The process has not taken any requests.
    NothingInHand { process: Uuid },
    /// Another session is extending or settling the requests of the process.
    HoldBusy,
    /// A hold of the process has expired.
    HoldExpired { process: Uuid, expired: i64, lost: i64 },
}

impl HoldError {
    pub(super) fn text(self) -> Text {
        match self {
            HoldError::NotHeld { kind, key, token } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("{kind} \"{}\" is not held with token {token}", shortened(&key)),
                Some("The claim has expired, was released or was taken over, or was never made.".into()),
                Some("Roll back what was done under it, and acquire the key again."),
            ),
            HoldError::StaleHold => stale("an expiring claim".into(), "The claim"),
            HoldError::CreateExists { queue, entity } => Text(
                Code::ERRCODE_UNIQUE_VIOLATION,
                format!("entity \"{}\" has a create request already", shortened(&entity)),
                Some(format!("Queue \"{queue}\" keeps at most one create request of an entity.")),
                Some("Send an update, or put a failed create back with claims.retry_requests()."),
            ),
            HoldError::PayloadTooLarge { queue, entity } => Text(
                Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                format!("payload of a request for entity \"{}\" is too large", shortened(&entity)),
                Some(format!(
                    "The payload, for queue \"{queue}\", has more than {} bytes as text, or is nested more than {} deep.",
                    PAYLOAD_BYTES, PAYLOAD_DEPTH
                )),
                Some("Store the data in a table, and send its key."),
            ),
            HoldError::NothingInHand { process } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("process {process} has no request in hand"),
                Some(
                    "It took none, settled them, took them in a transaction that has ended, or its hold was taken over."
                        .into(),
                ),
                Some(TAKE_AGAIN),
            ),
            HoldError::HoldBusy => Text(
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                "requests of the process are being extended or settled by another open transaction".into(),
                None,
                Some("Repeat the call when that transaction has ended."),
            ),
            HoldError::HoldExpired { process, expired, lost } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("the hold of process {process} has expired"),
                Some(match lost {
                    0 => format!("Of the requests that it held, {expired} count as new again."),
                    lost => format!(
                        "Of the requests that it held, {expired} count as new again, and {lost} were taken over."
                    ),
                }),
                Some(TAKE_AGAIN),
            ),
        }
    }
}

const TAKE_AGAIN: &str = "Roll back what was done for the requests, and take requests again.";
