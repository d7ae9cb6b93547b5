//! Releases the snapshot of a client's statement while a call waits, so that VACUUM need not keep old rows for it.

use pgrx::pg_sys;

/// References to the snapshot of a statement that executes in a portal: of the query, and of the executor's state.
const REGISTERED: u32 = 2;

/// Runs `body`, which must use no table. If the calling statement is all that needs its snapshot, releases it meanwhile, and
/// gives the statement a new one: it calls the function directly, reads no table, and READ COMMITTED lets it see what has
/// been committed since. Otherwise `body` runs with the snapshots that there are.
pub fn released<T>(body: impl FnOnce() -> T) -> T {
    let Some(statement) = ClientStatement::of_client() else { return body() };
    statement.release();
    let result = body();
    statement.renew();
    result
}

/// A statement whose snapshot nothing else uses.
struct ClientStatement {
    query: *mut pg_sys::QueryDesc,
    owner: pg_sys::ResourceOwner,
}

impl ClientStatement {
    fn of_client() -> Option<Self> {
        // SAFETY: reads the portal being executed, its query, its plan and its snapshot, which live as long as the call.
        unsafe {
            let is_outermost = pg_sys::GetCurrentTransactionNestLevel() == 1
                && pg_sys::XactIsoLevel < pg_sys::XACT_REPEATABLE_READ as i32
                && pg_sys::ActiveSnapshotSet();
            let portal = pg_sys::ActivePortal.as_ref().filter(|_| is_outermost)?;
            let query = portal.queryDesc.as_ref()?;
            let (state, plan) = (query.estate.as_ref()?, query.plannedstmt.as_ref()?);
            let snapshot = query.snapshot.as_ref()?;
            let is_its_own = std::ptr::eq(snapshot, pg_sys::GetActiveSnapshot())
                && std::ptr::eq(snapshot, state.es_snapshot)
                && state.es_crosscheck_snapshot.is_null()
                && (snapshot.active_count, snapshot.regd_count) == (1, REGISTERED);
            let reads_nothing = plan.relationOids.is_null()
                && plan.commandType == pg_sys::CmdType::CMD_SELECT
                && plan.rowMarks.is_null()
                && !plan.parallelModeNeeded
                && portal.holdSnapshot.is_null()
                && are_inline(query.params)
                && keeps_no_values(plan);
            let query = portal.queryDesc;
            (is_its_own && reads_nothing && !portal.resowner.is_null())
                .then_some(ClientStatement { query, owner: portal.resowner })
        }
    }

    /// Releases the snapshot. If an error follows, the transaction ends, because no subtransaction is open.
    fn release(&self) {
        // SAFETY: undoes what PostgreSQL did at the beginning of the statement, in the reverse order. Until `renew`
        // nothing uses the pointers to the snapshot. A portal that has failed does not end its query.
        unsafe {
            let query = &mut *self.query;
            let state = &mut *query.estate;
            pg_sys::UnregisterSnapshotFromOwner(state.es_snapshot, self.owner);
            state.es_snapshot = std::ptr::null_mut();
            pg_sys::UnregisterSnapshotFromOwner(query.snapshot, self.owner);
            query.snapshot = std::ptr::null_mut();
            pg_sys::PopActiveSnapshot();
            pg_sys::InvalidateCatalogSnapshot();
        }
    }

    fn renew(&self) {
        // SAFETY: as PostgreSQL does it at the beginning of a statement.
        unsafe {
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            let snapshot = pg_sys::GetActiveSnapshot();
            let query = &mut *self.query;
            query.snapshot = pg_sys::RegisterSnapshotOnOwner(snapshot, self.owner);
            (*query.estate).es_snapshot = pg_sys::RegisterSnapshotOnOwner(snapshot, self.owner);
        }
    }
}

/// Returns whether no parameter of a statement points into a TOAST table.
///
/// # Safety
/// The parameters are those of a query that is being executed.
unsafe fn are_inline(params: pg_sys::ParamListInfo) -> bool {
    // SAFETY: guaranteed by the caller; the number of parameters is that of the array behind the structure. A value of a type of variable
    // length is a pointer.
    unsafe {
        let Some(list) = params.as_ref() else { return true };
        let all = std::slice::from_raw_parts(list.params.as_ptr(), usize::try_from(list.numParams).unwrap_or(0));
        list.paramFetch.is_none()
            && all.iter().all(|param| {
                param.isnull
                    || !is_of_variable_length(param.ptype)
                    || !pgrx::varlena::varatt_is_1b_e(param.value.cast_mut_ptr())
            })
    }
}

/// Returns whether a statement only makes one call of this extension, as `SELECT claims.f(...)` and `SELECT * FROM claims.f(...)` do, and has no
/// other value meanwhile that could point into a TOAST table: without a snapshot VACUUM may remove what it points to. The arguments of the call
/// were read before.
///
/// # Safety
/// The plan is being executed.
unsafe fn keeps_no_values(plan: &pg_sys::PlannedStmt) -> bool {
    // SAFETY: the tag of a node says of which kind it is.
    unsafe {
        let top = plan.planTree;
        let is_plain = plan.subplans.is_null() && (*top).initPlan.is_null();
        match (*top).type_ {
            _ if !is_plain => false,
            pg_sys::NodeTag::T_Result => {
                (*top).lefttree.is_null() && elements((*top).targetlist).all(|entry| is_kept_safely(entry))
            }
            // All its expressions are evaluated here: the node below has one empty row.
            pg_sys::NodeTag::T_ProjectSet => {
                let below = (*top).lefttree;
                let is_empty = (*below).type_ == pg_sys::NodeTag::T_Result
                    && (*below).lefttree.is_null()
                    && (*below).targetlist.is_null();
                is_empty && elements((*top).targetlist).all(|entry| is_kept_safely(entry))
            }
            pg_sys::NodeTag::T_FunctionScan => {
                // The function has ended before anything else is evaluated.
                let mut functions = elements((*top.cast::<pg_sys::FunctionScan>()).functions);
                let only = functions.next().filter(|_| functions.next().is_none());
                only.is_some_and(|function| is_call((*function.cast::<pg_sys::RangeTblFunction>()).funcexpr))
            }
            _ => false,
        }
    }
}

/// Returns whether an entry of a target list has no value that could point into a TOAST table while the call runs.
///
/// # Safety
/// The entry is one of a plan.
unsafe fn is_kept_safely(entry: *mut pg_sys::Node) -> bool {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let expression: *mut pg_sys::Node = (*entry.cast::<pg_sys::TargetEntry>()).expr.cast();
        match innermost(expression) {
            // What is made of the result of the call is evaluated after it.
            Some(inner) if is_call(inner) || (*inner).type_ == pg_sys::NodeTag::T_Const => true,
            Some(_) => !is_of_variable_length(pg_sys::exprType(expression)),
            None => false,
        }
    }
}

/// Returns whether an expression is a call of a function of this extension.
///
/// # Safety
/// The node is an expression.
unsafe fn is_call(expression: *mut pg_sys::Node) -> bool {
    // SAFETY: guaranteed by the caller; looks catalogs up.
    unsafe {
        (*expression).type_ == pg_sys::NodeTag::T_FuncExpr
            && pg_sys::get_func_namespace((*expression.cast::<pg_sys::FuncExpr>()).funcid)
                == pg_sys::get_namespace_oid(c"claims".as_ptr(), true)
    }
}

/// Returns the innermost expression that is not a constant, if each expression around it has only constants as its other arguments: none of
/// these waits with a value for the end of a call. Does not look into a call of this extension.
///
/// # Safety
/// The node is an expression.
unsafe fn innermost(mut expression: *mut pg_sys::Node) -> Option<*mut pg_sys::Node> {
    use pg_sys::NodeTag::*;
    // SAFETY: the tag of a node says of which kind it is.
    unsafe {
        loop {
            expression = match (*expression).type_ {
                T_Const | T_Param => return Some(expression),
                _ if is_call(expression) => return Some(expression),
                T_NullTest => (*expression.cast::<pg_sys::NullTest>()).arg.cast(),
                T_BooleanTest => (*expression.cast::<pg_sys::BooleanTest>()).arg.cast(),
                T_RelabelType => (*expression.cast::<pg_sys::RelabelType>()).arg.cast(),
                T_CoerceViaIO => (*expression.cast::<pg_sys::CoerceViaIO>()).arg.cast(),
                T_FieldSelect => (*expression.cast::<pg_sys::FieldSelect>()).arg.cast(),
                kind @ (T_FuncExpr | T_OpExpr) => {
                    let list = match kind {
                        T_FuncExpr => (*expression.cast::<pg_sys::FuncExpr>()).args,
                        _ => (*expression.cast::<pg_sys::OpExpr>()).args,
                    };
                    let mut arguments = elements(list).filter(|argument| (**argument).type_ != T_Const);
                    match (arguments.next(), arguments.next()) {
                        (None, _) => return Some(expression),
                        (Some(only), None) => only,
                        _ => return None,
                    }
                }
                _ => return None,
            };
        }
    }
}

fn is_of_variable_length(type_oid: pg_sys::Oid) -> bool {
    // SAFETY: looks a catalog up.
    unsafe { pg_sys::get_typlen(type_oid) == -1 }
}

/// Returns the nodes of a list.
///
/// # Safety
/// The list has nodes, or is NULL.
unsafe fn elements(list: *mut pg_sys::List) -> impl Iterator<Item = *mut pg_sys::Node> {
    // SAFETY: guaranteed by the caller; the positions are within the list.
    unsafe {
        let length = list.as_ref().map_or(0, |list| list.length);
        (0..length).map(move |at| pg_sys::list_nth(list, at).cast())
    }
}
