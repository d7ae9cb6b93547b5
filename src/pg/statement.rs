//! Statements and their plans, which are kept for the session.

use std::cell::Cell;

use pgrx::pg_sys;

use super::settings::planning_by_index;
use super::text::c_text;

/// A statement and, after its first use, its plan.
pub struct Statement {
    text: &'static str,
    argument_types: &'static [pg_sys::Oid],
    plan: Cell<pg_sys::SPIPlanPtr>,
    /// The generation of the plan, as of the last time that it was planned under our settings.
    generation: Cell<std::ffi::c_int>,
    /// How many executions are in progress: a trigger that the statement fires may execute it again.
    depth: Cell<u32>,
}

/// Re-entrancy guard: counts an execution until it is dropped, also after an error.
struct Execution<'s>(&'s Cell<u32>);

impl<'s> Execution<'s> {
    fn begin(depth: &'s Cell<u32>) -> Self {
        depth.set(depth.get() + 1);
        Execution(depth)
    }

    /// Whether this is the outermost execution.
    fn is_outermost(&self) -> bool {
        self.0.get() == 1
    }
}

impl Drop for Execution<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Declares statements: `statement! { NAME(TYPE, …) = "text"; … }`, the types as constants of `pg_sys`.
macro_rules! statement {
    ($($(#[$meta:meta])* $name:ident ($($type:ident),* $(,)?) = $text:expr;)*) => {
        ::std::thread_local! {
            $($(#[$meta])* pub static $name: $crate::pg::statement::Statement =
                const { $crate::pg::statement::Statement::new($text, &[$(::pgrx::pg_sys::$type),*]) };)*
        }
    };
}

pub(crate) use statement;

impl Statement {
    pub const fn new(text: &'static str, argument_types: &'static [pg_sys::Oid]) -> Self {
        let plan = Cell::new(std::ptr::null_mut());
        Statement { text, argument_types, plan, generation: Cell::new(0), depth: Cell::new(0) }
    }

    pub(super) fn text(&self) -> &'static str {
        self.text
    }

    pub(super) fn argument_types(&self) -> &'static [pg_sys::Oid] {
        self.argument_types
    }

    /// Prepares the statement. Its plan is always generic: the values never change which index is the right one, and
    /// planning for each call costs more than the call.
    fn prepare(&self) {
        self.plan.set(kept_plan(self.text, self.argument_types));
    }

    /// Runs `execute` with the plan, and makes sure that it was made under the settings of [`planning_by_index`].
    ///
    /// These settings are applied only when Postgres is about to plan. If an invalidation arrives between this
    /// check and Postgres' own, Postgres plans without them. Then the generation of the plan has changed
    /// unexpectedly, and the plan is discarded after this use; but only by the outermost execution, since the others
    /// still need the plan.
    pub(super) fn with_plan<T>(&self, execute: impl FnOnce(pg_sys::SPIPlanPtr) -> T) -> T {
        if self.plan.get().is_null() {
            self.prepare();
        }
        let plan = self.plan.get();
        // SAFETY: the plan is kept until it is freed here; it has one source, as every statement's text is one command.
        let (is_planned, generation) = unsafe {
            let source: *mut pg_sys::CachedPlanSource =
                pg_sys::list_nth(pg_sys::SPI_plan_get_plan_sources(plan), 0).cast();
            let gplan = (*source).gplan;
            ((*source).is_valid && !gplan.is_null() && (*gplan).is_valid, &raw const (*source).generation)
        };
        let execution = Execution::begin(&self.depth);
        if is_planned {
            let result = execute(plan);
            // SAFETY: the source lives as long as the plan.
            if execution.is_outermost() && unsafe { *generation } != self.generation.get() {
                self.plan.set(std::ptr::null_mut());
                // SAFETY: nothing refers to the plan any more; rows have been copied out of the executor.
                unsafe { pg_sys::SPI_freeplan(plan) };
            }
            result
        } else {
            let result = planning_by_index(|| execute(plan));
            // SAFETY: as above.
            self.generation.set(unsafe { *generation });
            result
        }
    }
}

/// Plans a statement, always generically, and keeps the plan. SPI must be connected.
pub(super) fn kept_plan(text: &str, argument_types: &[pg_sys::Oid]) -> pg_sys::SPIPlanPtr {
    let terminated = c_text(text);
    // SAFETY: text and types are valid for the call, which copies them.
    unsafe {
        let plan = pg_sys::SPI_prepare_cursor(
            terminated.as_ptr(),
            i32::try_from(argument_types.len()).unwrap_or(0),
            argument_types.as_ptr().cast_mut(),
            pg_sys::CURSOR_OPT_GENERIC_PLAN as i32,
        );
        if plan.is_null() {
            pgrx::error!("SPI_prepare_cursor failed: {text}");
        }
        pg_sys::SPI_keepplan(plan);
        plan
    }
}
