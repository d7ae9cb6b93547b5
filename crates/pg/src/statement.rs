//! Statements and their plans, which are kept for the session.

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::OnceLock;

use pgrx::pg_sys;

use super::settings::{planning_by_index, under};
use super::subtransaction::{Caught, translating};
use super::text::c_text;

/// The way in which statements are planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Planning {
    /// Once, with a generic plan. The values never change which index is the right one, and planning again costs more
    /// than the call.
    #[default]
    Once,
    /// For each execution, with its values, which decide on which nodes the rows are.
    EachTime,
}

thread_local! {
    static PLANNING: Cell<Planning> = const { Cell::new(Planning::Once) };
}

/// The location of a statement's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Tables of this database. If these are distributed, the statement is refused, because it was not written for
    /// that.
    Here,
    /// One node, whatever the values, so one plan fits all of them.
    OneShard,
    /// Tables of this node, for other nodes: shards and catalogs. No part of the statement goes to other nodes.
    Node,
    /// Any tables, distributed or not.
    Anywhere,
}

/// The hooks around every statement while the tables are distributed. Each may raise an error.
pub struct WhileDistributed {
    /// The settings under which a statement runs that may go to other nodes.
    pub settings: &'static [(&'static CStr, &'static CStr)],
    /// Checks whether it may be executed.
    pub check: fn(Reach),
    /// Called before it is sent to any nodes.
    pub before: fn(),
    /// Called after it was executed.
    pub after: fn(),
    /// Called with the error that it raised.
    pub failed: fn(&Caught),
}

static WHILE_DISTRIBUTED: OnceLock<WhileDistributed> = OnceLock::new();

/// Sets the hooks. Called once per process.
pub fn register(hooks: WhileDistributed) {
    let _ = WHILE_DISTRIBUTED.set(hooks);
}

/// Sets how statements of this session are planned from now on.
pub fn set_planning(planning: Planning) {
    PLANNING.set(planning);
}

/// Returns the hooks if the tables are distributed.
fn while_distributed() -> Option<&'static WhileDistributed> {
    if PLANNING.get() == Planning::EachTime { WHILE_DISTRIBUTED.get() } else { None }
}

/// Returns whether the tables are distributed, as the compatibility check has found them.
pub fn are_distributed() -> bool {
    while_distributed().is_some()
}

/// Raises an error for a statement that must not be executed where the tables are.
pub fn require(reach: Reach) {
    if let Some(hooks) = while_distributed() {
        (hooks.check)(reach);
    }
}

/// Runs `execute` for a statement that may go to other nodes.
pub(super) fn with_distributed_hooks<T>(execute: impl FnOnce() -> T) -> T {
    let Some(hooks) = while_distributed() else { return execute() };
    (hooks.before)();
    let result = translating(hooks.failed, || under(hooks.settings, execute));
    (hooks.after)();
    result
}

/// A statement and, after its first use, its plan.
pub struct Statement {
    text: &'static str,
    argument_types: &'static [&'static [pg_sys::Oid]],
    plan: Cell<pg_sys::SPIPlanPtr>,
    /// The planning with which the plan was made.
    planning: Cell<Planning>,
    reach: Reach,
    /// The generation of the plan when it was last planned under the settings of this extension.
    generation: Cell<std::ffi::c_int>,
    /// The number of executions in progress. A trigger that the statement fires may execute it again.
    depth: Cell<u32>,
}

/// A guard that counts an execution until it is dropped, also after an error.
struct Execution<'s>(&'s Cell<u32>);

impl<'s> Execution<'s> {
    fn begin(depth: &'s Cell<u32>) -> Self {
        depth.set(depth.get() + 1);
        Execution(depth)
    }

    fn is_outermost(&self) -> bool {
        self.0.get() == 1
    }
}

impl Drop for Execution<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Declares statements on tables of this database: `statement! { NAME(TYPE, …) = "text"; … }`, with the types as
/// constants of `pg_sys`.
#[macro_export]
macro_rules! statement {
    ($($all:tt)*) => { $crate::declare_statements! { Here $($all)* } };
}

/// Like `statement!`, for statements that work whether the tables are distributed or not.
#[macro_export]
macro_rules! shared_statement {
    ($($all:tt)*) => { $crate::declare_statements! { Anywhere $($all)* } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! declare_statements {
    ($reach:ident $($(#[$meta:meta])* $name:ident ($($type:ident),* $(,)?) = $text:expr;)*) => {
        ::std::thread_local! {
            $($(#[$meta])* pub static $name: $crate::statement::Statement = const {
                $crate::statement::Statement::new(
                    $text, &[&[$(::pgrx::pg_sys::$type),*]], $crate::statement::Reach::$reach)
            };)*
        }
    };
}

pub use {shared_statement, statement};

impl Statement {
    pub const fn new(text: &'static str, argument_types: &'static [&'static [pg_sys::Oid]], reach: Reach) -> Self {
        let plan = Cell::new(std::ptr::null_mut());
        let planning = Cell::new(Planning::Once);
        Statement { text, argument_types, plan, planning, reach, generation: Cell::new(0), depth: Cell::new(0) }
    }

    /// Returns a statement whose text is known only at run time. It is kept for the session, so the number of statements of
    /// each kind must not exceed the number of shards.
    pub fn leaked(text: String, argument_types: &'static [&'static [pg_sys::Oid]], reach: Reach) -> &'static Self {
        Box::leak(Box::new(Statement::new(text.leak(), argument_types, reach)))
    }

    pub(super) fn text(&self) -> &'static str {
        self.text
    }

    pub(super) fn argument_types(&self) -> &'static [&'static [pg_sys::Oid]] {
        self.argument_types
    }

    /// Returns whether a part of it may go to other nodes.
    pub(super) fn may_leave(&self) -> bool {
        self.reach != Reach::Node
    }

    /// Runs `execute` with the plan, and ensures that the plan was made under the settings of [`planning_by_index`].
    ///
    /// These settings are applied only when PostgreSQL is about to plan. If an invalidation arrives between this check
    /// and PostgreSQL's own, PostgreSQL plans without them. Then the generation of the plan has changed unexpectedly,
    /// and the plan is discarded after this use. Only the outermost execution discards it, because the others still use
    /// the plan.
    pub(super) fn with_plan<T>(&self, execute: impl FnOnce(pg_sys::SPIPlanPtr) -> T) -> T {
        require(self.reach);
        let is_of_one_shard = matches!(self.reach, Reach::OneShard | Reach::Node);
        let planning = if is_of_one_shard { Planning::Once } else { PLANNING.get() };
        if !self.plan.get().is_null() && self.planning.get() != planning && self.depth.get() == 0 {
            // SAFETY: no execution is in progress, and rows have been copied out of the executor.
            unsafe { pg_sys::SPI_freeplan(self.plan.replace(std::ptr::null_mut())) };
        }
        if self.plan.get().is_null() {
            self.planning.set(planning);
            self.plan.set(prepare(self.text, &self.argument_types.concat(), planning));
        }
        let plan = self.plan.get();
        // SAFETY: the plan lives until it is freed here. It has one source, because every statement's text is one
        // command.
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
            // SAFETY: the source lives as long as the plan.
            self.generation.set(unsafe { *generation });
            result
        }
    }
}

/// Prepares a statement with the planning of this session, and keeps it. SPI must be connected.
pub(super) fn prepare_for_session(text: &str, argument_types: &[pg_sys::Oid]) -> pg_sys::SPIPlanPtr {
    prepare(text, argument_types, PLANNING.get())
}

fn prepare(text: &str, argument_types: &[pg_sys::Oid], planning: Planning) -> pg_sys::SPIPlanPtr {
    let options = match planning {
        Planning::Once => pg_sys::CURSOR_OPT_GENERIC_PLAN,
        Planning::EachTime => pg_sys::CURSOR_OPT_CUSTOM_PLAN,
    };
    let terminated = c_text(text);
    // SAFETY: text and types are valid for the call, which copies them.
    unsafe {
        let plan = pg_sys::SPI_prepare_cursor(
            terminated.as_ptr(),
            i32::try_from(argument_types.len()).unwrap_or(0),
            argument_types.as_ptr().cast_mut(),
            options as i32,
        );
        if plan.is_null() {
            pgrx::error!("SPI_prepare_cursor failed: {text}");
        }
        pg_sys::SPI_keepplan(plan);
        plan
    }
}
