//! The row that a trigger was called for.

use std::marker::PhantomData;
use std::num::NonZeroUsize;

use pgrx::htup::heap_getattr_raw;
use pgrx::{FromDatum, PgTrigger, PgTriggerLevel, PgTriggerOperation, pg_sys};

use super::image::Image;
use super::stored::{self, BoundedText};
use super::tuple::{attribute, width};
pub use super::value::Tid;
use super::value::Value;

/// A row-level trigger's row, before and after the change.
pub struct RowChange<'t> {
    data: &'t pg_sys::TriggerData,
    operation: PgTriggerOperation,
}

/// A version of a row, borrowed while its trigger runs.
#[derive(Clone, Copy)]
pub struct RowVersion<'t> {
    tuple: pg_sys::HeapTuple,
    descriptor: pg_sys::TupleDesc,
    trigger: PhantomData<&'t pg_sys::TriggerData>,
}

/// The value of a column, as far as no code of its type is needed to read it.
#[derive(Debug, PartialEq, Eq)]
pub enum PlainValue {
    Null,
    /// A value of an integer type.
    Number(i64),
    /// A value of `text` or `varchar`.
    Text(BoundedText),
    /// A value of another type.
    Other,
}

impl<'t> RowChange<'t> {
    /// Returns `None` for a trigger that is not called for a row.
    pub fn of(trigger: &PgTrigger<'t>) -> Option<Self> {
        let operation = trigger.op().ok()?;
        let is_row =
            matches!(trigger.level(), PgTriggerLevel::Row) && !matches!(operation, PgTriggerOperation::Truncate);
        is_row.then(|| RowChange { data: trigger.trigger_data(), operation })
    }

    /// Returns the table of the row. It is a partition if the table is partitioned.
    pub fn table(&self) -> pg_sys::Oid {
        // SAFETY: the relation is open while its trigger runs.
        unsafe { (*self.data.tg_relation).rd_id }
    }

    pub fn function(&self) -> pg_sys::Oid {
        // SAFETY: the trigger lives while its function runs.
        unsafe { (*self.data.tg_trigger).tgfoid }
    }

    /// Returns the owner of the row's table.
    pub fn owner(&self) -> pg_sys::Oid {
        // SAFETY: the relation is open while its trigger runs.
        unsafe { (*(*self.data.tg_relation).rd_rel).relowner }
    }

    /// Returns the name of the row's table, for messages.
    pub fn table_name(&self) -> String {
        super::expression::table_name(self.table())
    }

    /// Returns the statement that changed the row, as TG_OP names it in PL/pgSQL.
    pub fn operation(&self) -> &'static str {
        match self.operation {
            PgTriggerOperation::Insert => "INSERT",
            PgTriggerOperation::Update => "UPDATE",
            PgTriggerOperation::Delete => "DELETE",
            PgTriggerOperation::Truncate => "TRUNCATE",
        }
    }

    /// Returns the old row, or `None` for an INSERT.
    pub fn before(&self) -> Option<RowVersion<'t>> {
        match self.operation {
            PgTriggerOperation::Insert => None,
            _ => Some(self.version(self.data.tg_trigtuple)),
        }
    }

    /// Returns the new row, or `None` for a DELETE.
    pub fn after(&self) -> Option<RowVersion<'t>> {
        match self.operation {
            PgTriggerOperation::Insert => Some(self.version(self.data.tg_trigtuple)),
            PgTriggerOperation::Update => Some(self.version(self.data.tg_newtuple)),
            _ => None,
        }
    }

    fn version(&self, tuple: pg_sys::HeapTuple) -> RowVersion<'t> {
        // SAFETY: the relation is open while its trigger runs.
        RowVersion { tuple, descriptor: unsafe { (*self.data.tg_relation).rd_att }, trigger: PhantomData }
    }
}

impl RowVersion<'_> {
    /// Returns the whole row, as an argument of the table's row type.
    pub fn value(self) -> Value {
        // SAFETY: the tuple belongs to the descriptor's relation, and lives as long as the trigger runs. A row datum is
        // a plain varlena.
        unsafe {
            let datum = pg_sys::heap_copy_tuple_as_datum(self.tuple, self.descriptor);
            let image = Image::of_varlena(datum);
            pg_sys::pfree(datum.cast_mut_ptr());
            Value::of_type(image, (*self.descriptor).tdtypeid)
        }
    }

    /// Returns the row like [`Self::value`], with large columns as they are stored: PostgreSQL reads each of them when a statement
    /// uses it. The statement must take columns of its argument, and not store the argument as a whole: a pointer to a
    /// stored column is invalid in another row.
    pub fn value_as_stored(self) -> Value {
        // SAFETY: tuple and descriptor live as long as the trigger runs. heap_copy_tuple_as_datum() writes the header of a datum into
        // a copy, and reads stored columns only where the tuple says that it has some: so a copy says that it has none.
        unsafe {
            let tuple = pg_sys::heap_copytuple(self.tuple);
            let has_stored = (*(*tuple).t_data).t_infomask & pg_sys::HEAP_HASEXTERNAL as u16;
            (*(*tuple).t_data).t_infomask &= !has_stored;
            let datum = pg_sys::heap_copy_tuple_as_datum(tuple, self.descriptor);
            (*datum.cast_mut_ptr::<pg_sys::HeapTupleHeaderData>()).t_infomask |= has_stored;
            pg_sys::heap_freetuple(tuple);
            let image = Image::of_varlena(datum);
            pg_sys::pfree(datum.cast_mut_ptr());
            Value::of_type(image, (*self.descriptor).tdtypeid)
        }
    }

    pub fn row_type(self) -> pg_sys::Oid {
        // SAFETY: the descriptor lives as long as the trigger runs.
        unsafe { (*self.descriptor).tdtypeid }
    }

    /// Returns the bytes of all columns of type `text` or `varchar`, without reading them.
    pub fn text_bytes(self) -> usize {
        // SAFETY: tuple and descriptor live as long as the trigger runs. The columns are those of the descriptor, and a text is of
        // variable length.
        unsafe {
            let is_text = |column: &NonZeroUsize| {
                let attribute = attribute(self.descriptor, column.get());
                !attribute.attisdropped && matches!(attribute.atttypid, pg_sys::TEXTOID | pg_sys::VARCHAROID)
            };
            let columns = (1..=width(self.descriptor)).filter_map(NonZeroUsize::new).filter(is_text);
            let datums = columns.filter_map(|column| heap_getattr_raw(self.tuple, column, self.descriptor));
            datums.map(|datum| stored::bytes_of(datum)).sum()
        }
    }

    pub fn ctid(self) -> Tid {
        // SAFETY: the tuple lives as long as the trigger runs.
        Tid::of(unsafe { (*self.tuple).t_self })
    }

    /// Returns the value of a column, without running code of its type. A text of more than `most_bytes` is not read.
    pub fn plain_value(self, column: NonZeroUsize, most_bytes: usize) -> PlainValue {
        // SAFETY: tuple and descriptor live as long as the trigger runs. A value is read as its type.
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
                    stored::bounded(datum, most_bytes).map_or(PlainValue::Null, PlainValue::Text)
                }
                _ => PlainValue::Other,
            }
        }
    }

    /// Returns whether a column has one value in both versions, also if it was written again.
    pub fn holds_same(self, other: RowVersion, column: NonZeroUsize) -> bool {
        if self.has_same(other, column) {
            return true;
        }
        // SAFETY: as in `has_same`; a length of -1 is that of types of variable length.
        unsafe {
            if self.descriptor != other.descriptor
                || column.get() > width(self.descriptor)
                || attribute(self.descriptor, column.get()).attlen != -1
            {
                return false;
            }
            let values = [self, other].map(|version| heap_getattr_raw(version.tuple, column, version.descriptor));
            matches!(values, [Some(one), Some(two)] if stored::are_same(one, two))
        }
    }

    /// Returns whether a column has equal bytes in both versions. TOASTed values count as equal only if they were not
    /// written again.
    pub fn has_same(self, other: RowVersion, column: NonZeroUsize) -> bool {
        // SAFETY: both are versions of a row of one relation, with its descriptor, and `column` is one of its columns.
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
