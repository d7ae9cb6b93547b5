//! Refuses direct calls of trigger functions, with the SQLSTATEs of PostgreSQL's own trigger functions.

use pgrx::{PgLogLevel, PgSqlErrorCode as Code};

use super::declare::text;

/// Raises 39P01.
pub fn refuse_direct_call_of_trigger(function: &'static str) {
    refuse(Code::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED, function, "trigger");
}

/// Raises 39P03.
pub fn refuse_direct_call_of_event_trigger(function: &'static str) {
    refuse(Code::ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED, function, "event trigger");
}

fn refuse(code: Code, function: &str, kind: &str) {
    text!({ code }: "function \"{function}\" was not called by {kind} manager",
        hint "PostgreSQL calls it when a trigger fires. It does nothing else.")
    .send(PgLogLevel::ERROR);
}
