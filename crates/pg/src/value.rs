//! Arguments and results of statements.
//!
//! An argument owns its bytes in memory of Rust. It needs no memory context of PostgreSQL, and remains valid until the
//! statement runs. A column is read only as its own type. The mapping between types of Rust and SQL is defined only
//! here: both traits are sealed.

use pgrx::datum::Interval;
use pgrx::{FromDatum, IntoDatum, Uuid as PgUuid, pg_sys};
use uuid::Uuid;

use super::clock::Moment;
use super::image::{HEADER, Image, header};
use super::jsonb::{JsonText, Jsonb};
use super::name::Name;
use super::uuid::from_pg_uuid;
use super::xid8::Xid8;

pub struct Value {
    content: Content,
    type_oid: pg_sys::Oid,
}

#[doc(hidden)]
pub enum Content {
    Null,
    /// Passed by value.
    Inline(pg_sys::Datum),
    /// Passed by reference.
    #[allow(private_interfaces)]
    Image(Image),
    Json(Jsonb),
}

impl Value {
    /// Returns a value whose type is known only at run time.
    ///
    /// # Safety
    /// The bytes are a value of that type, which is passed by reference.
    pub(super) unsafe fn of_type(image: Image, type_oid: pg_sys::Oid) -> Self {
        Value { content: Content::Image(image), type_oid }
    }

    pub(super) fn type_oid(&self) -> pg_sys::Oid {
        self.type_oid
    }

    /// Returns the datum for SPI, which lives as long as the value, and whether it is null.
    pub(super) fn parts(&self) -> (pg_sys::Datum, std::ffi::c_char) {
        let datum = match &self.content {
            Content::Null => return (pg_sys::Datum::from(0), b'n' as std::ffi::c_char),
            Content::Inline(datum) => *datum,
            Content::Image(image) => image.datum(),
            Content::Json(json) => pg_sys::Datum::from(json.as_ptr()),
        };
        (datum, b' ' as std::ffi::c_char)
    }
}

mod closed {
    pub trait Closed {}
}
use closed::Closed;

pub trait Argument: Closed {
    #[doc(hidden)]
    const TYPE: pg_sys::Oid;
    #[doc(hidden)]
    fn content(self) -> Content;
}

impl<T: Argument> From<T> for Value {
    fn from(value: T) -> Self {
        Value { content: value.content(), type_oid: T::TYPE }
    }
}

impl<T: Closed> Closed for Option<T> {}
impl<T: Argument> Argument for Option<T> {
    const TYPE: pg_sys::Oid = T::TYPE;

    fn content(self) -> Content {
        self.map_or(Content::Null, T::content)
    }
}

macro_rules! arguments {
    ($($rust:ty = $sql:ident, $content:expr;)*) => {$(
        impl Argument for $rust {
            const TYPE: pg_sys::Oid = pg_sys::$sql;

            fn content(self) -> Content {
                let content: fn(Self) -> Content = $content;
                content(self)
            }
        }
    )*};
}
arguments! {
    bool = BOOLOID, inline;
    i16 = INT2OID, inline;
    i32 = INT4OID, inline;
    i64 = INT8OID, inline;
    pg_sys::Oid = OIDOID, inline;
    Moment = TIMESTAMPTZOID, inline;
    Xid8 = XID8OID, inline;
    &str = TEXTOID, |text| Content::Image(Image::varlena(text.as_bytes()));
    String = TEXTOID, |text| text.as_str().content();
    &[u8] = BYTEAOID, |bytes| Content::Image(Image::varlena(bytes));
    Uuid = UUIDOID, |uuid| Content::Image(Image::of(uuid.as_bytes()));
    PgUuid = UUIDOID, |uuid| Content::Image(Image::of(uuid.as_bytes()));
    Interval = INTERVALOID, interval;
    Jsonb = JSONBOID, Content::Json;
    JsonText = JSONBOID, jsonb;
    Inet = INETOID, |inet| Content::Image(inet.0);
    Name = NAMEOID, |name| Content::Image(Image::of(&name.bytes()));
    Tid = TIDOID, |tid| Content::Image(tid.0);
}

/// A value of type inet.
#[derive(Debug, Clone)]
pub struct Inet(Image);

impl Inet {
    /// # Safety
    /// The datum is an inet that is not toasted.
    pub(super) unsafe fn of_datum(datum: pg_sys::Datum) -> Self {
        // SAFETY: guaranteed by the caller.
        Inet(unsafe { Image::of_varlena(datum) })
    }
}

/// The place of a row in its table.
pub struct Tid(Image);

impl Tid {
    pub(super) fn of(tid: pg_sys::ItemPointerData) -> Self {
        // A tid is three numbers of two bytes, in this order (ItemPointerData).
        let numbers = [tid.ip_blkid.bi_hi, tid.ip_blkid.bi_lo, tid.ip_posid];
        Tid(Image::of(numbers.map(u16::to_ne_bytes).as_flattened()))
    }
}

fn inline(value: impl IntoDatum) -> Content {
    value.into_datum().map_or(Content::Null, Content::Inline)
}

fn interval(interval: Interval) -> Content {
    // An interval is its microseconds, days and months, in this order.
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&interval.micros().to_ne_bytes());
    bytes[8..12].copy_from_slice(&interval.days().to_ne_bytes());
    bytes[12..].copy_from_slice(&interval.months().to_ne_bytes());
    Content::Image(Image::of(&bytes))
}

fn jsonb(text: JsonText) -> Content {
    // SAFETY: the datum is a jsonb that was just made.
    text.into_datum().map_or(Content::Null, |datum| unsafe {
        let image = Image::of_varlena(datum);
        pg_sys::pfree(datum.cast_mut_ptr());
        Content::Image(image)
    })
}

/// An element type of arrays.
pub trait Element: Closed {
    #[doc(hidden)]
    const TYPE: pg_sys::Oid;
    #[doc(hidden)]
    const ARRAY: pg_sys::Oid;
    /// Appends the element, in the format of an array, to bytes that are padded for it.
    #[doc(hidden)]
    fn append(&self, bytes: &mut Vec<u8>);
}

macro_rules! elements {
    ($($rust:ty = $sql:ident, $array:ident, $append:expr;)*) => {$(
        impl Element for $rust {
            const TYPE: pg_sys::Oid = pg_sys::$sql;
            const ARRAY: pg_sys::Oid = pg_sys::$array;

            fn append(&self, bytes: &mut Vec<u8>) {
                let append: fn(&Self, &mut Vec<u8>) = $append;
                append(self, bytes);
            }
        }
    )*};
}
elements! {
    i16 = INT2OID, INT2ARRAYOID, |value, bytes| bytes.extend(value.to_ne_bytes());
    i32 = INT4OID, INT4ARRAYOID, |value, bytes| bytes.extend(value.to_ne_bytes());
    i64 = INT8OID, INT8ARRAYOID, |value, bytes| bytes.extend(value.to_ne_bytes());
    pg_sys::Oid = OIDOID, OIDARRAYOID, |value, bytes| bytes.extend(value.to_u32().to_ne_bytes());
    Xid8 = XID8OID, XID8ARRAYOID, |value, bytes| bytes.extend(value.0.to_ne_bytes());
    Uuid = UUIDOID, UUIDARRAYOID, |value, bytes| bytes.extend(value.as_bytes());
    PgUuid = UUIDOID, UUIDARRAYOID, |value, bytes| bytes.extend(value.as_bytes());
    &str = TEXTOID, TEXTARRAYOID, |value, bytes| append_text(value, bytes);
    String = TEXTOID, TEXTARRAYOID, |value, bytes| append_text(value, bytes);
}

fn append_text(text: &str, bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(HEADER), 0);
    bytes.extend(header(HEADER + text.len()));
    bytes.extend(text.as_bytes());
}

/// Returns an array of one dimension, counted from 1. Without elements it has no dimension.
fn array<'e, T: Element + 'e>(elements: impl ExactSizeIterator<Item = Option<&'e T>> + Clone) -> Content {
    let count = elements.len();
    let has_nulls = elements.clone().any(|element| element.is_none());
    let mut bytes = Vec::with_capacity(ARRAY_HEADER + count * 16);
    bytes.extend([0; HEADER]);
    bytes.extend(i32::from(count > 0).to_ne_bytes());
    // The offset of the elements, or 0 if they follow at once.
    let start = if has_nulls { (ARRAY_HEADER + count.div_ceil(8)).next_multiple_of(size_of::<u64>()) } else { 0 };
    bytes.extend(i32::try_from(start).unwrap_or_else(|_| panic!("array is too large")).to_ne_bytes());
    bytes.extend(T::TYPE.to_u32().to_ne_bytes());
    if count > 0 {
        bytes.extend(i32::try_from(count).unwrap_or_else(|_| panic!("array is too large")).to_ne_bytes());
        bytes.extend(1_i32.to_ne_bytes());
    }
    if has_nulls {
        bytes.resize(start, 0);
        for (at, _) in elements.clone().enumerate().filter(|(_, element)| element.is_some()) {
            bytes[ARRAY_HEADER + at / 8] |= 1 << (at % 8);
        }
    }
    elements.flatten().for_each(|element| element.append(&mut bytes));
    let size = header(bytes.len());
    bytes[..HEADER].copy_from_slice(&size);
    Content::Image(Image::of(&bytes))
}

/// The bytes before the elements of an array of one dimension, or before its null bitmap.
const ARRAY_HEADER: usize = 24;

impl<T: Element> Closed for Vec<T> {}
impl<T: Element> Argument for Vec<T> {
    const TYPE: pg_sys::Oid = T::ARRAY;

    fn content(self) -> Content {
        array(self.iter().map(Some))
    }
}

impl<T: Element> Closed for Vec<Option<T>> {}
impl<T: Element> Argument for Vec<Option<T>> {
    const TYPE: pg_sys::Oid = T::ARRAY;

    fn content(self) -> Content {
        array(self.iter().map(Option::as_ref))
    }
}

impl<T: Element> Closed for &[T] {}
impl<T: Element> Argument for &[T] {
    const TYPE: pg_sys::Oid = T::ARRAY;

    fn content(self) -> Content {
        array(self.iter().map(Some))
    }
}

/// A type as which columns are read.
pub trait Column: Closed + Sized {
    /// Returns whether a column of this type can be read as this one.
    #[doc(hidden)]
    fn fits(type_oid: pg_sys::Oid) -> bool;

    /// # Safety
    /// The datum is of a type that fits, and not NULL.
    #[doc(hidden)]
    unsafe fn read(datum: pg_sys::Datum) -> Option<Self>;
}

macro_rules! columns {
    ($($rust:ty = $($sql:ident)|+;)*) => {$(
        impl Column for $rust {
            fn fits(type_oid: pg_sys::Oid) -> bool {
                matches!(type_oid, $(pg_sys::$sql)|+)
            }

            unsafe fn read(datum: pg_sys::Datum) -> Option<Self> {
                // SAFETY: guaranteed by the caller.
                unsafe { Self::from_datum(datum, false) }
            }
        }
    )*};
}
columns! {
    bool = BOOLOID;
    i16 = INT2OID;
    i32 = INT4OID;
    i64 = INT8OID;
    f64 = FLOAT8OID;
    pg_sys::Oid = OIDOID | REGROLEOID;
    Moment = TIMESTAMPTZOID;
    Interval = INTERVALOID;
    Xid8 = XID8OID;
    PgUuid = UUIDOID;
    Jsonb = JSONBOID;
    String = TEXTOID | VARCHAROID;
    Vec<u8> = BYTEAOID;
    Vec<i32> = INT4ARRAYOID;
    Vec<i64> = INT8ARRAYOID;
    Vec<String> = TEXTARRAYOID;
    Vec<PgUuid> = UUIDARRAYOID;
}
impl Column for Uuid {
    fn fits(type_oid: pg_sys::Oid) -> bool {
        PgUuid::fits(type_oid)
    }

    unsafe fn read(datum: pg_sys::Datum) -> Option<Self> {
        // SAFETY: guaranteed by the caller.
        unsafe { PgUuid::read(datum) }.map(from_pg_uuid)
    }
}

macro_rules! closed {
    ($($rust:ty),*) => {$(impl Closed for $rust {})*};
}
closed!(
    Inet,
    Name,
    Tid,
    bool,
    i16,
    i32,
    i64,
    f64,
    pg_sys::Oid,
    Moment,
    Xid8,
    PgUuid,
    Uuid,
    Interval,
    Jsonb,
    JsonText,
    String,
    &str,
    &[u8]
);
// The elements of bytea have no SQL type of their own.
impl Closed for Vec<u8> {}
