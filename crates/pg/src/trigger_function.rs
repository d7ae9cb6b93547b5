//! The entry points of the trigger functions in Rust. They do what the trigger macro of pgrx does, and refuse a direct
//! call as PostgreSQL's own trigger functions do. The macro panics in that case (XX000).

use std::sync::OnceLock;

use pgrx::pg_sys::{Datum, FunctionCallInfo, Pg_finfo_record};
use pgrx::{PgTrigger, pg_guard};

/// The functions behind the entry points. They cannot change the row in memory: each returns NULL to PostgreSQL.
pub struct TriggerFunctions {
    pub announce_change: fn(&PgTrigger),
    pub capture_change: fn(&PgTrigger),
    pub capture_row: fn(&PgTrigger),
    pub hold_naming: fn(&PgTrigger),
    pub send_automatically: fn(&PgTrigger),
    pub unique_row: fn(&PgTrigger),
    /// Raises the error for a function that was called directly.
    pub refuse_direct_call: fn(&'static str),
}

static FUNCTIONS: OnceLock<TriggerFunctions> = OnceLock::new();

/// Sets the functions. Called once per process.
pub fn register(functions: TriggerFunctions) {
    let _ = FUNCTIONS.set(functions);
}

/// Defines entry points: `entry_points! { name_wrapper, pg_finfo_name_wrapper: name; … }`.
macro_rules! entry_points {
    ($($symbol:ident, $information:ident: $function:ident;)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $information() -> &'static Pg_finfo_record {
                static API: Pg_finfo_record = Pg_finfo_record { api_version: 1 };
                &API
            }

            /// # Safety
            /// Called by PostgreSQL.
            #[pg_guard]
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $symbol(call: FunctionCallInfo) -> Datum {
                let Some(functions) = FUNCTIONS.get() else { return Datum::from(0) };
                // SAFETY: guaranteed by the caller; `from_fcinfo` checks that the trigger manager is the caller.
                match unsafe { PgTrigger::from_fcinfo(&*call) } {
                    Ok(trigger) => (functions.$function)(&trigger),
                    Err(_) => (functions.refuse_direct_call)(stringify!($function)),
                }
                Datum::from(0)
            }
        )*
    };
}

entry_points! {
    announce_change_wrapper, pg_finfo_announce_change_wrapper: announce_change;
    capture_change_wrapper, pg_finfo_capture_change_wrapper: capture_change;
    capture_row_wrapper, pg_finfo_capture_row_wrapper: capture_row;
    hold_naming_wrapper, pg_finfo_hold_naming_wrapper: hold_naming;
    send_automatically_wrapper, pg_finfo_send_automatically_wrapper: send_automatically;
    unique_row_wrapper, pg_finfo_unique_row_wrapper: unique_row;
}
