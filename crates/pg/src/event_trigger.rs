//! The entry points of event triggers, for which pgrx has no macro. The functions belong to the bootstrap superuser.
//! PostgreSQL calls them with the rights of the role that runs the command, so no other role may replace them.

use std::sync::OnceLock;

use pgrx::pg_guard;
use pgrx::pg_sys::{self, Datum, FunctionCallInfo, NodeTag, Pg_finfo_record};

/// The functions that the event triggers call.
pub struct EventTriggers {
    /// Called after a table was created or altered.
    pub table_changed: fn(TableChange),
    /// Called after tables were dropped.
    pub tables_dropped: fn(),
    /// Raises the error for a function that was called directly.
    pub refuse_direct_call: fn(&'static str),
}

/// The parts of a command that concern the extension.
#[derive(Debug, Clone, Copy, Default)]
pub struct TableChange {
    /// The command is no ALTER TABLE: it has created a table, or a schema with tables.
    pub creates: bool,
    /// A partition was attached.
    pub attaches: bool,
    /// A partition was detached.
    pub detaches: bool,
    /// A column got another type, or a stored generated column another expression: its values have changed without triggers.
    pub retypes: bool,
    /// The table or a column has another name, or the table another schema.
    pub renames: bool,
    /// The table has another owner.
    pub reowns: bool,
    /// The table has become a typed table.
    pub types: bool,
    /// The table became an inheritance child.
    pub inherits: bool,
    /// The table or sequence became unlogged.
    pub unlogs: bool,
}

static TRIGGERS: OnceLock<EventTriggers> = OnceLock::new();

/// Sets the functions. Called once per process.
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
/// Called by PostgreSQL.
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn claims_complete_triggers(call: FunctionCallInfo) -> Datum {
    if let Some(triggers) = TRIGGERS.get() {
        // SAFETY: guaranteed by the caller.
        match unsafe { event(call) } {
            // SAFETY: the event trigger manager has passed the event.
            Some(event) => (triggers.table_changed)(unsafe { table_change(event) }),
            None => (triggers.refuse_direct_call)("complete_triggers"),
        }
    }
    Datum::from(0)
}

/// # Safety
/// Called by PostgreSQL.
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn claims_forget_dropped_tables(call: FunctionCallInfo) -> Datum {
    if let Some(triggers) = TRIGGERS.get() {
        // SAFETY: guaranteed by the caller.
        match unsafe { event(call) } {
            Some(_) => (triggers.tables_dropped)(),
            None => (triggers.refuse_direct_call)("forget_dropped_tables"),
        }
    }
    Datum::from(0)
}

/// Returns the event that a function is called for, or `None` if it was called directly.
///
/// # Safety
/// A function call by PostgreSQL.
unsafe fn event(call: FunctionCallInfo) -> Option<*const pg_sys::EventTriggerData> {
    // SAFETY: the event trigger manager passes the event as the context of its call.
    unsafe {
        let context = (*call).context;
        let is_event = !context.is_null() && (*context).type_ == NodeTag::T_EventTriggerData;
        is_event.then(|| context.cast_const().cast())
    }
}

/// Returns the parts of the command.
///
/// # Safety
/// The event is that of the running call.
unsafe fn table_change(event: *const pg_sys::EventTriggerData) -> TableChange {
    let mut change = TableChange::default();
    // SAFETY: an event has the command's parse tree.
    unsafe {
        let command = (*event).parsetree;
        let tag = if command.is_null() { NodeTag::T_Invalid } else { (*command).type_ };
        if tag != NodeTag::T_AlterTableStmt {
            change.renames = matches!(tag, NodeTag::T_RenameStmt | NodeTag::T_AlterObjectSchemaStmt);
            change.creates = !change.renames && tag != NodeTag::T_AlterSeqStmt;
            return change;
        }
        let parts = (*command.cast::<pg_sys::AlterTableStmt>()).cmds;
        let count = if parts.is_null() { 0 } else { (*parts).length };
        for at in 0..count {
            let part: *const pg_sys::AlterTableCmd = pg_sys::list_nth(parts, at).cast();
            match (*part).subtype {
                pg_sys::AlterTableType::AT_AttachPartition => change.attaches = true,
                pg_sys::AlterTableType::AT_DetachPartition | pg_sys::AlterTableType::AT_DetachPartitionFinalize => {
                    change.detaches = true;
                }
                pg_sys::AlterTableType::AT_AlterColumnType => change.retypes = true,
                #[cfg(any(feature = "pg17", feature = "pg18"))]
                pg_sys::AlterTableType::AT_SetExpression => change.retypes = true,
                pg_sys::AlterTableType::AT_ChangeOwner => change.reowns = true,
                pg_sys::AlterTableType::AT_AddOf => change.types = true,
                pg_sys::AlterTableType::AT_AddInherit => change.inherits = true,
                pg_sys::AlterTableType::AT_SetUnLogged => change.unlogs = true,
                _ => {}
            }
        }
    }
    change
}
