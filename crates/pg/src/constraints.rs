//! A hook that runs before PostgreSQL executes SET CONSTRAINTS … IMMEDIATE. It also notices COMMIT PREPARED and ROLLBACK PREPARED.

use std::ffi::c_char;
use std::sync::OnceLock;

use pgrx::{pg_guard, pg_sys};

use super::prepared_transaction;

static BEFORE: OnceLock<fn()> = OnceLock::new();
static PREVIOUS: OnceLock<pg_sys::ProcessUtility_hook_type> = OnceLock::new();

unsafe extern "C-unwind" {
    /// Declared here, because the wrapper of pgrx catches every error of every command, and raises it again without
    /// position, context and constraint name.
    fn standard_ProcessUtility(
        statement: *mut pg_sys::PlannedStmt,
        text: *const c_char,
        is_read_only_tree: bool,
        context: pg_sys::ProcessUtilityContext::Type,
        parameters: pg_sys::ParamListInfo,
        environment: *mut pg_sys::QueryEnvironment,
        receiver: *mut pg_sys::DestReceiver,
        completion: *mut pg_sys::QueryCompletion,
    );
}

/// Installs the hook. Called once per process. If `before` raises an error, the command fails.
pub fn register(before: fn()) {
    if BEFORE.set(before).is_ok() {
        // SAFETY: a process has one thread while a library is loaded; the hook lives as long as the library, which is
        // never unloaded.
        unsafe {
            let _ = PREVIOUS.set(pg_sys::ProcessUtility_hook);
            pg_sys::ProcessUtility_hook = Some(process);
        }
    }
}

/// Has no guard of pgrx: errors of the command pass over this frame, which has nothing to drop.
unsafe extern "C-unwind" fn process(
    statement: *mut pg_sys::PlannedStmt,
    text: *const c_char,
    is_read_only_tree: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    parameters: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    receiver: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: called by PostgreSQL with a command's statement; the previous hook is called as PostgreSQL would call it.
    unsafe {
        if makes_immediate((*statement).utilityStmt) {
            notice();
        }
        if ends_prepared((*statement).utilityStmt) {
            prepared_transaction::ends();
        }
        match PREVIOUS.get() {
            Some(Some(previous)) => {
                previous(statement, text, is_read_only_tree, context, parameters, environment, receiver, completion)
            }
            _ => standard_ProcessUtility(
                statement,
                text,
                is_read_only_tree,
                context,
                parameters,
                environment,
                receiver,
                completion,
            ),
        }
    }
}

/// # Safety
/// A command's parse tree, or NULL.
unsafe fn makes_immediate(command: *const pg_sys::Node) -> bool {
    // SAFETY: a node is of the type that its tag says.
    unsafe {
        !command.is_null()
            && (*command).type_ == pg_sys::NodeTag::T_ConstraintsSetStmt
            && !(*command.cast::<pg_sys::ConstraintsSetStmt>()).deferred
    }
}

/// # Safety
/// A command's parse tree, or NULL.
unsafe fn ends_prepared(command: *const pg_sys::Node) -> bool {
    use pg_sys::TransactionStmtKind::{TRANS_STMT_COMMIT_PREPARED, TRANS_STMT_ROLLBACK_PREPARED};
    // SAFETY: a node is of the type that its tag says.
    unsafe {
        !command.is_null()
            && (*command).type_ == pg_sys::NodeTag::T_TransactionStmt
            && [TRANS_STMT_COMMIT_PREPARED, TRANS_STMT_ROLLBACK_PREPARED]
                .contains(&(*command.cast::<pg_sys::TransactionStmt>()).kind)
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn notice() {
    if let Some(before) = BEFORE.get() {
        before();
    }
}
