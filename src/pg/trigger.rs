//! The row that a trigger was called for.

use std::marker::PhantomData;
use std::num::NonZeroUsize;

use pgrx::htup::heap_getattr_raw;
use pgrx::pg_sys;
use pgrx::{FromDatum, PgTrigger, PgTriggerLevel, PgTriggerOperation};

use super::image::Image;
use super::tuple::{attribute, width};
use super::value::Value;

/// A row-level trigger's row, before and after.
pub struct RowChange<'t> {
    data: &'t pg_sys::TriggerData,
    operation: PgTriggerOperation,
}

/// One version of a row, borrowed while its trigger runs.
#[derive(Clone, Copy)]
pub struct RowVersion<'t> {
    tuple: pg_sys::HeapTuple,
    descriptor: pg_sys::TupleDesc,
    trigger: PhantomData<&'t pg_sys::TriggerData>,
}

/// What a column holds, as far as that needs no code of its type.
#[derive(Debug, PartialEq, Eq)]
pub enum PlainValue {
    Null,
    /// Of one of the integer types.
    Number(i64),
    /// Of `text` or `varchar`.
    Text(String),
    /// Of another type.
    Other,
}

impl<'t> RowChange<'t> {
    /// `None` for a trigger that is not called for a row.
    pub fn of(trigger: &PgTrigger<'t>) -> Option<Self> {
        let operation = trigger.op().ok()?;
        let is_row =
            matches!(trigger.level(), PgTriggerLevel::Row) && !matches!(operation, PgTriggerOperation::Truncate);
        is_row.then(|| RowChange { data: trigger.trigger_data(), operation })
    }

    /// The table of the row: a partition, if the table is partitioned.
    pub fn table(&self) -> pg_sys::Oid {
        // SAFETY: the relation is open while its trigger runs.
        unsafe { (*self.data.tg_relation).rd_id }
    }

    /// The function that is called.
    pub fn function(&self) -> pg_sys::Oid {
        // SAFETY: as above, of the trigger.
        unsafe { (*self.data.tg_trigger).tgfoid }
    }

    /// The owner of that table.
    pub fn owner(&self) -> pg_sys::Oid {
        // SAFETY: as above.
        unsafe { (*(*self.data.tg_relation).rd_rel).relowner }
    }

    /// The name of that table, for messages.
    pub fn table_name(&self) -> String {
        super::expression::table_name(self.table())
    }

    /// The old row; `None` for an INSERT.
    pub fn before(&self) -> Option<RowVersion<'t>> {
        match self.operation {
            PgTriggerOperation::Insert => None,
            _ => Some(self.version(self.data.tg_trigtuple)),
        }
    }

    /// The new row; `None` for a DELETE.
    pub fn after(&self) -> Option<RowVersion<'t>> {
        match self.operation {
            PgTriggerOperation::Insert => Some(self.version(self.data.tg_trigtuple)),
            PgTriggerOperation::Update => Some(self.version(self.data.tg_newtuple)),
            _ => None,
        }
    }

    fn version(&self, tuple: pg_sys::HeapTuple) -> RowVersion<'t> {
        // SAFETY: as in `table`.
        RowVersion { tuple, descriptor: unsafe { (*self.data.tg_relation).rd_att }, trigger: PhantomData }
    }
}

impl RowVersion<'_> {
    /// The whole row, as an argument of the table's row type.
    pub fn value(self) -> Value {
        // SAFETY: the tuple is one of the descriptor's relation, and lives as long as the trigger runs. A row as a datum is a
        // varlena in plain form.
        unsafe {
            let datum = pg_sys::heap_copy_tuple_as_datum(self.tuple, self.descriptor);
            let image = Image::of_varlena(datum);
            pg_sys::pfree(datum.cast_mut_ptr());
            Value::of_type(image, (*self.descriptor).tdtypeid)
        }
    }

    /// The row type of the table.
    pub fn row_type(self) -> pg_sys::Oid {
        // SAFETY: as above.
        unsafe { (*self.descriptor).tdtypeid }
    }

    /// Where the row is stored.
    pub fn place(self) -> Value {
        // SAFETY: as above; a tid is three numbers of two bytes, in this order (ItemPointerData).
        unsafe {
            let place = (*self.tuple).t_self;
            let numbers = [place.ip_blkid.bi_hi, place.ip_blkid.bi_lo, place.ip_posid];
            Value::of_type(Image::of(numbers.map(u16::to_ne_bytes).as_flattened()), pg_sys::TIDOID)
        }
    }

    /// What a column holds. No code of anybody's is run for it.
    pub fn held(self, column: NonZeroUsize) -> PlainValue {
        // SAFETY: as above; a value is read as what its type is.
        unsafe {
            if column.get() > width(self.descriptor) {
                return PlainValue::Other;
            }
            let type_oid = attribute(self.descriptor, column.get()).atttypid;
            let Some(datum) = heap_getattr_raw(self.tuple, column, self.descriptor) else { return PlainValue::Null };
            let number = |number: Option<i64>| number.map_or(PlainValue::Null, PlainValue::Number);
            match type_oid {
                pg_sys::INT8OID => number(i64::from_datum(datum, false)),
                pg_sys::INT4OID => number(i32::from_datum(datum, false).map(i64::from)),
                pg_sys::INT2OID => number(i16::from_datum(datum, false).map(i64::from)),
                pg_sys::TEXTOID | pg_sys::VARCHAROID => {
                    String::from_datum(datum, false).map_or(PlainValue::Null, PlainValue::Text)
                }
                _ => PlainValue::Other,
            }
        }
    }

    /// Whether a column has the same bytes in both versions. TOASTed values count as the same only if they were
    /// not written again.
    pub fn has_same(self, other: RowVersion, column: NonZeroUsize) -> bool {
        // SAFETY: both are versions of one relation's row, by its one descriptor; `column` is one of its columns.
        unsafe {
            if self.descriptor != other.descriptor || column.get() > width(self.descriptor) {
                return false;
            }
            let attribute = attribute(self.descriptor, column.get());
            let values = [self, other].map(|version| heap_getattr_raw(version.tuple, column, version.descriptor));
            match values {
                [Some(one), Some(two)] => bytes_are_same(one, two, attribute),
                [None, None] => true,
                _ => false,
            }
        }
    }
}

/// # Safety
/// Both are values of the attribute.
unsafe fn bytes_are_same(one: pg_sys::Datum, two: pg_sys::Datum, attribute: &pg_sys::FormData_pg_attribute) -> bool {
    if attribute.attbyval {
        return one.value() == two.value();
    }
    // SAFETY: a value that is not passed by value is a pointer to as many bytes as its type, or its header, says.
    unsafe {
        let bytes = |datum: pg_sys::Datum| {
            let start: *const u8 = datum.cast_mut_ptr();
            let length = match attribute.attlen {
                -1 => pgrx::varlena::varsize_any(start.cast()),
                -2 => std::ffi::CStr::from_ptr(start.cast()).count_bytes(),
                fixed => usize::from(fixed.unsigned_abs()),
            };
            std::slice::from_raw_parts(start, length)
        };
        bytes(one) == bytes(two)
    }
}
