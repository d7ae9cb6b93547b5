//! Entry points of event triggers, for which pgrx has no macro. They belong to the cluster's first superuser, because
//! Postgres calls them with the rights of whoever gave the command: no other role may put something else in their place.

use std::sync::OnceLock;

use pgrx::pg_guard;
use pgrx::pg_sys::{self, Datum, FunctionCallInfo, NodeTag, Pg_finfo_record};

/// What to call for each event trigger.
pub struct EventTriggers {
    /// A table was created or altered; says whether a partition was attached.
    pub table_changed: fn(bool),
    /// Tables were dropped.
    pub tables_dropped: fn(),
}

static TRIGGERS: OnceLock<EventTriggers> = OnceLock::new();

/// Called once per process.
pub fn register(triggers: EventTriggers) {
    let _ = TRIGGERS.set(triggers);
}

static API: Pg_finfo_record = Pg_finfo_record { api_version: 1 };

#[unsafe(no_mangle)]
extern "C" fn pg_finfo_claims_complete_triggers() -> &'static Pg_finfo_record {
    &API
}

#[unsafe(no_mangle)]
extern "C" fn pg_finfo_claims_forget_dropped_tables() -> &'static Pg_finfo_record {
    &API
}

/// # Safety
/// Called by Postgres.
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn claims_complete_triggers(call: FunctionCallInfo) -> Datum {
    // SAFETY: by the caller.
    let has_attached = unsafe { has_attached(call) };
    if let Some(triggers) = TRIGGERS.get() {
        (triggers.table_changed)(has_attached);
    }
    Datum::from(0)
}

/// # Safety
/// Called by Postgres.
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn claims_forget_dropped_tables(_call: FunctionCallInfo) -> Datum {
    if let Some(triggers) = TRIGGERS.get() {
        (triggers.tables_dropped)();
    }
    Datum::from(0)
}

/// Whether the command attaches a partition.
///
/// # Safety
/// A function call by Postgres.
unsafe fn has_attached(call: FunctionCallInfo) -> bool {
    // SAFETY: an event trigger is called with the command's parse tree in its context.
    unsafe {
        let context = (*call).context;
        if context.is_null() || (*context).type_ != NodeTag::T_EventTriggerData {
            return false;
        }
        let command = (*context.cast::<pg_sys::EventTriggerData>()).parsetree;
        if command.is_null() || (*command).type_ != NodeTag::T_AlterTableStmt {
            return false;
        }
        let parts = (*command.cast::<pg_sys::AlterTableStmt>()).cmds;
        let count = if parts.is_null() { 0 } else { (*parts).length };
        (0..count).any(|at| {
            let part: *const pg_sys::AlterTableCmd = pg_sys::list_nth(parts, at).cast();
            (*part).subtype == pg_sys::AlterTableType::AT_AttachPartition
        })
    }
}
