//! Statements and their plans, which are kept for the session.

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::OnceLock;

use pgrx::pg_sys;

use super::settings::{planning_by_index, under};
use super::text::c_text;

/// How statements are planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Planning {
    /// Once, for all values: they never change which index is the right one, and planning again costs more than the call.
    #[default]
    Once,
    /// For each execution, by its values: where they say on which nodes the rows are.
    EachTime,
}

thread_local! {
    static PLANNING: Cell<Planning> = const { Cell::new(Planning::Once) };
}

/// Where the rows of a statement are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// In tables of this database. Where those are spread over nodes, it is refused: nobody has looked what it would do there.
    Here,
    /// On one node, whatever the values: so one plan is good for all of them.
    OneShard,
    /// Good wherever the tables are.
    Anywhere,
}

/// What is done about every statement while the tables are spread. Each may raise an error.
pub struct WhileSpread {
    /// Whether it may be executed.
    pub check: fn(Reach),
    /// Before it is sent to whatever nodes.
    pub before: fn(),
    /// After it was executed.
    pub after: fn(),
}

static WHILE_SPREAD: OnceLock<WhileSpread> = OnceLock::new();

/// Called once per process.
pub fn register(hooks: WhileSpread) {
    let _ = WHILE_SPREAD.set(hooks);
}

/// From now on statements of this session are planned like this.
pub fn plan(planning: Planning) {
    PLANNING.set(planning);
}

/// What is to be done, if the tables are spread.
fn while_spread() -> Option<&'static WhileSpread> {
    if PLANNING.get() == Planning::EachTime { WHILE_SPREAD.get() } else { None }
}

/// Raises an error for a statement that must not be executed where the tables are.
pub(super) fn require(reach: Reach) {
    if let Some(hooks) = while_spread() {
        (hooks.check)(reach);
    }
}

/// Runs `execute`, of a statement that may go to other nodes.
pub(super) fn as_sent<T>(execute: impl FnOnce() -> T) -> T {
    /// What the caller has set must not matter.
    const SETTINGS: &[(&CStr, &CStr)] = &[
        // Values go as texts, which are read there as that node is set.
        (c"DateStyle", c"ISO, YMD"),
        // The texts of statements are read there by that node's setting, too.
        (c"standard_conforming_strings", c"on"),
        // Results come back in binary form: Citus reads them as if this session's client had sent them.
        (c"client_encoding", c"UTF8"),
        // Otherwise what a failing function has written on other nodes would stay.
        (c"citus.function_opens_transaction_block", c"on"),
        // One connection for each node: more of them take longer to make than they save.
        (c"citus.max_adaptive_executor_pool_size", c"1"),
        // Statements on several shards need not keep each other out: who waits for a row gives up, and takes one after the other in order.
        (c"citus.enable_deadlock_prevention", c"off"),
    ];
    let Some(hooks) = while_spread() else { return execute() };
    (hooks.before)();
    let result = under(SETTINGS, execute);
    (hooks.after)();
    result
}

/// A statement and, after its first use, its plan.
pub struct Statement {
    text: &'static str,
    argument_types: &'static [pg_sys::Oid],
    plan: Cell<pg_sys::SPIPlanPtr>,
    /// How it was made.
    planning: Cell<Planning>,
    reach: Reach,
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

/// Declares statements on tables of this database: `statement! { NAME(TYPE, …) = "text"; … }`, the types as constants of `pg_sys`.
macro_rules! statement {
    ($($all:tt)*) => { $crate::pg::statement::declare! { Here $($all)* } };
}

/// The same, of statements that are good wherever the tables are.
macro_rules! shared_statement {
    ($($all:tt)*) => { $crate::pg::statement::declare! { Anywhere $($all)* } };
}

/// The same, of statements each of which leads to one shard whatever its values.
macro_rules! shard_statement {
    ($($all:tt)*) => { $crate::pg::statement::declare! { OneShard $($all)* } };
}

macro_rules! declare {
    ($reach:ident $($(#[$meta:meta])* $name:ident ($($type:ident),* $(,)?) = $text:expr;)*) => {
        ::std::thread_local! {
            $($(#[$meta])* pub static $name: $crate::pg::statement::Statement = const {
                $crate::pg::statement::Statement::new(
                    $text, &[$(::pgrx::pg_sys::$type),*], $crate::pg::statement::Reach::$reach)
            };)*
        }
    };
}

pub(crate) use {declare, shard_statement, shared_statement, statement};

impl Statement {
    pub const fn new(text: &'static str, argument_types: &'static [pg_sys::Oid], reach: Reach) -> Self {
        let plan = Cell::new(std::ptr::null_mut());
        let planning = Cell::new(Planning::Once);
        Statement { text, argument_types, plan, planning, reach, generation: Cell::new(0), depth: Cell::new(0) }
    }

    /// One whose text is known only at run time, and which leads to one shard whatever its values, or is on a table of this node. It is kept as
    /// long as the session: of each kind there may be no more than a cluster has shards.
    pub fn made(text: String, argument_types: &'static [pg_sys::Oid]) -> &'static Self {
        Box::leak(Box::new(Statement::new(text.leak(), argument_types, Reach::OneShard)))
    }

    pub(super) fn text(&self) -> &'static str {
        self.text
    }

    pub(super) fn argument_types(&self) -> &'static [pg_sys::Oid] {
        self.argument_types
    }

    fn prepare(&self) {
        self.plan.set(planned(self.text, self.argument_types, self.planning.get()));
    }

    /// Runs `execute` with the plan, and makes sure that it was made under the settings of [`planning_by_index`].
    ///
    /// These settings are applied only when Postgres is about to plan. If an invalidation arrives between this
    /// check and Postgres' own, Postgres plans without them. Then the generation of the plan has changed
    /// unexpectedly, and the plan is discarded after this use; but only by the outermost execution, since the others
    /// still need the plan.
    pub(super) fn with_plan<T>(&self, execute: impl FnOnce(pg_sys::SPIPlanPtr) -> T) -> T {
        require(self.reach);
        let planning = if self.reach == Reach::OneShard { Planning::Once } else { PLANNING.get() };
        if !self.plan.get().is_null() && self.planning.get() != planning && self.depth.get() == 0 {
            // SAFETY: nobody executes it, and rows have been copied out of the executor.
            unsafe { pg_sys::SPI_freeplan(self.plan.replace(std::ptr::null_mut())) };
        }
        if self.plan.get().is_null() {
            self.planning.set(planning);
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

/// Prepares a statement to be planned as this session's are, and keeps it. SPI must be connected.
pub(super) fn kept_plan(text: &str, argument_types: &[pg_sys::Oid]) -> pg_sys::SPIPlanPtr {
    planned(text, argument_types, PLANNING.get())
}

fn planned(text: &str, argument_types: &[pg_sys::Oid], planning: Planning) -> pg_sys::SPIPlanPtr {
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
