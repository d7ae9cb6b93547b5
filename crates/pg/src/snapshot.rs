//! Releases the snapshot of a client's statement while a call waits, so that VACUUM need not keep old rows for it.

use pgrx::pg_sys;

/// References to the snapshot of a statement that executes in a portal: of the query, and of the executor's state.
const REGISTERED: u32 = 2;

/// Runs `body`, which must use no table. If the calling statement is all that needs its snapshot, releases it meanwhile, and
/// gives the statement a new one: it calls the function directly, reads no table, and READ COMMITTED lets it see what has
/// been committed since. Otherwise `body` runs with the snapshots that there are.
pub fn released<T>(body: impl FnOnce() -> T) -> T {
    let Some(statement) = Statement::of_client() else { return body() };
    statement.release();
    let result = body();
    statement.renew();
    result
}

/// A statement whose snapshot nothing else uses.
struct Statement {
    query: *mut pg_sys::QueryDesc,
    owner: pg_sys::ResourceOwner,
}

impl Statement {
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
                && portal.holdSnapshot.is_null();
            let query = portal.queryDesc;
            (is_its_own && reads_nothing && !portal.resowner.is_null())
                .then_some(Statement { query, owner: portal.resowner })
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
