//! Sets of rows as results of functions, in one call.
//!
//! pgrx returns one row for each call, and looks up the columns of the result for each execution of a function. Together that takes a third of the time
//! of a function that returns one row. Here a function puts its rows into a tuplestore, with the columns that the caller of the function knows.

use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::{IntoDatum, pg_sys};

/// The rows that a function returns, as its [Columns]. The function needs a declaration of its own (`sql = …`).
pub struct RowSet<Row>(Vec<Row>);

impl<Row> RowSet<Row> {
    pub fn new(rows: impl IntoIterator<Item = Row>) -> Self {
        RowSet(rows.into_iter().collect())
    }
}

/// Columns of a row.
pub trait Columns {
    /// Their number.
    const COUNT: usize;

    /// Writes their values to the first places.
    fn put(self, values: &mut [pg_sys::Datum], nulls: &mut [bool]);
}

/// Columns, and more columns behind them.
pub struct Joined<First, More>(pub First, pub More);

impl<First: Columns, More: Columns> Columns for Joined<First, More> {
    const COUNT: usize = First::COUNT + More::COUNT;

    fn put(self, values: &mut [pg_sys::Datum], nulls: &mut [bool]) {
        let ((values, more_values), (nulls, more_nulls)) =
            (values.split_at_mut(First::COUNT), nulls.split_at_mut(First::COUNT));
        self.0.put(values, nulls);
        self.1.put(more_values, more_nulls);
    }
}

macro_rules! columns {
    ($count:literal: $($column:ident)*) => {
        impl<$($column: IntoDatum),*> Columns for ($($column,)*) {
            const COUNT: usize = $count;

            #[allow(non_snake_case, reason = "the columns have the names of their types")]
            fn put(self, values: &mut [pg_sys::Datum], nulls: &mut [bool]) {
                let ($($column,)*) = self;
                let columns = [$($column.into_datum()),*];
                for ((column, value), is_null) in columns.into_iter().zip(values).zip(nulls) {
                    *is_null = column.is_none();
                    *value = column.unwrap_or(pg_sys::Datum::null());
                }
            }
        }
    };
}
columns!(1: A);
columns!(2: A B);
columns!(3: A B C);
columns!(12: A B C D E F G H I J K L);

/// Most columns of a row.
const MOST_COLUMNS: usize = 16;

// SAFETY: the caller of the function takes the rows from the tuplestore.
unsafe impl<Row: Columns> BoxRet for RowSet<Row> {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> pgrx::datum::Datum<'fcx> {
        // SAFETY: the caller has a result that takes sets, and describes their columns, or gets an error. It frees the tuplestore, which is in the
        // memory of the query.
        unsafe {
            let (store, columns) = make_store(fcinfo.as_mut_ptr());
            let has_columns = !columns.is_null() && crate::tuple::width(columns) == Row::COUNT;
            assert!(has_columns, "a function was declared with other columns than it returns");
            const { assert!(Row::COUNT <= MOST_COLUMNS) };
            let (mut values, mut nulls) = ([pg_sys::Datum::null(); MOST_COLUMNS], [true; MOST_COLUMNS]);
            for row in self.0 {
                pgrx::check_for_interrupts!();
                row.put(&mut values, &mut nulls);
                let tuple = pg_sys::heap_form_tuple(columns, values.as_mut_ptr(), nulls.as_mut_ptr());
                pg_sys::tuplestore_puttuple(store, tuple);
                pg_sys::heap_freetuple(tuple);
            }
            fcinfo.return_null()
        }
    }
}

/// Makes the tuplestore that a call returns, and returns it with the columns of its rows. Raises an error if the caller takes no set.
///
/// # Safety
/// The call is one of a function that returns a set.
unsafe fn make_store(call: pg_sys::FunctionCallInfo) -> (*mut pg_sys::Tuplestorestate, pg_sys::TupleDesc) {
    // SAFETY: guaranteed by the caller; the store is in the memory of the query.
    unsafe {
        let result = (*call).resultinfo.cast::<pg_sys::ReturnSetInfo>();
        let takes_sets = !result.is_null()
            && (*result).type_ == pg_sys::NodeTag::T_ReturnSetInfo
            && (*result).allowedModes & pg_sys::SetFunctionReturnMode::SFRM_Materialize as i32 != 0;
        if !takes_sets {
            // Raises PostgreSQL's error for such a caller.
            pg_sys::InitMaterializedSRF(call, pg_sys::MAT_SRF_USE_EXPECTED_DESC);
        }
        let columns = expected_columns(call, result);
        let outer = pg_sys::MemoryContextSwitchTo((*(*result).econtext).ecxt_per_query_memory);
        let is_scrollable = (*result).allowedModes & pg_sys::SetFunctionReturnMode::SFRM_Materialize_Random as i32 != 0;
        let store = pg_sys::tuplestore_begin_heap(is_scrollable, false, pg_sys::work_mem);
        pg_sys::MemoryContextSwitchTo(outer);
        (*result).returnMode = pg_sys::SetFunctionReturnMode::SFRM_Materialize;
        (*result).setResult = store;
        // The caller does not compare them with its own.
        (*result).setDesc = std::ptr::null_mut();
        (store, columns)
    }
}

/// Returns rows of SPI from a call: the first columns, as many as the call returns.
///
/// # Safety
/// The call is one of a function that returns a set. The rows are the result of SPI, have these columns, and its connection is open.
pub(super) unsafe fn return_rows(call: pg_sys::FunctionCallInfo, rows: &pg_sys::SPITupleTable) -> pg_sys::Datum {
    // SAFETY: guaranteed by the caller. The store copies the values.
    unsafe {
        let (store, columns) = make_store(call);
        assert!(!columns.is_null(), "a function of one column has no successor");
        let width = crate::tuple::width(columns);
        let all = std::slice::from_raw_parts(rows.vals, usize::try_from(rows.numvals).unwrap_or(0));
        for tuple in all {
            let mut nulls = vec![false; width];
            let mut value = |at| pg_sys::SPI_getbinval(*tuple, rows.tupdesc, at as std::ffi::c_int + 1, &mut nulls[at]);
            let mut values: Vec<_> = (0..width).map(&mut value).collect();
            pg_sys::tuplestore_putvalues(store, columns, values.as_mut_ptr(), nulls.as_mut_ptr());
        }
        (*call).isnull = true;
        pg_sys::Datum::from(0)
    }
}

/// Returns the columns of the rows that a call returns. NULL if the function is not declared to return several columns.
///
/// # Safety
/// Both belong to the call.
unsafe fn expected_columns(call: pg_sys::FunctionCallInfo, result: *mut pg_sys::ReturnSetInfo) -> pg_sys::TupleDesc {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let known = (*result).expectedDesc;
        if !known.is_null() {
            return known;
        }
        let mut columns = std::ptr::null_mut();
        pg_sys::get_call_result_type(call, std::ptr::null_mut(), &mut columns);
        columns
    }
}

// SAFETY: the declaration of the function names its columns.
unsafe impl<Row> pgrx::pgrx_sql_entity_graph::metadata::SqlTranslatable for RowSet<Row> {
    const TYPE_IDENT: &'static str = pgrx::pgrx_resolved_type!(RowSet<Row>);
    const TYPE_ORIGIN: pgrx::pgrx_sql_entity_graph::metadata::TypeOrigin =
        pgrx::pgrx_sql_entity_graph::metadata::TypeOrigin::External;
    const ARGUMENT_SQL: Result<
        pgrx::pgrx_sql_entity_graph::metadata::SqlMappingRef,
        pgrx::pgrx_sql_entity_graph::metadata::ArgumentError,
    > = Err(pgrx::pgrx_sql_entity_graph::metadata::ArgumentError::Table);
    const RETURN_SQL: Result<
        pgrx::pgrx_sql_entity_graph::metadata::ReturnsRef,
        pgrx::pgrx_sql_entity_graph::metadata::ReturnsError,
    > = Ok(pgrx::pgrx_sql_entity_graph::metadata::ReturnsRef::One(
        pgrx::pgrx_sql_entity_graph::metadata::SqlMappingRef::literal("record"),
    ));
}
