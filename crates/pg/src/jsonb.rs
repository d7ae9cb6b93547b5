//! Values of type jsonb.

use std::rc::Rc;

use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::{FromDatum, IntoDatum, pg_sys};

use super::image::{HEADER, Image};
use super::jsonb_reader::JsonbTokens;
use super::numeric;
use super::sql_type::{argument_of_type, type_in_sql};

/// A detoasted jsonb value in memory of its own.
#[derive(Clone)]
pub struct Jsonb {
    value: Rc<Image>,
}

impl Jsonb {
    pub fn tokens(&self) -> JsonbTokens<'_> {
        JsonbTokens::of(&self.value.bytes()[HEADER..])
    }

    /// Builds a jsonb from the bytes that follow its varlena header.
    pub(super) fn of_content(content: &[u8]) -> Self {
        Jsonb { value: Rc::new(Image::varlena(content)) }
    }

    /// Returns the root container, for PostgreSQL's iterator.
    fn root(&self) -> *mut pg_sys::JsonbContainer {
        let value = self.as_ptr().cast::<pg_sys::Jsonb>().cast_mut();
        // SAFETY: the image is a detoasted jsonb (see from_polymorphic_datum) whose root follows its varlena header. It
        // is only read, whatever the type of the pointer.
        unsafe { &raw mut (*value).root }
    }

    pub(super) fn as_ptr(&self) -> *const u8 {
        self.value.as_ptr()
    }

    /// Returns the array or object of a key, if this is an object that has one.
    pub fn container(&self, key: &str) -> Option<Jsonb> {
        self.tokens().container(key).map(Jsonb::of_content)
    }

    /// Returns the size of the value as text, and its nesting depth. A value of less than `unasked` bytes is not
    /// examined. Stops as soon as one of `limits` is exceeded.
    pub fn extent(&self, unasked: usize, limits: Extent) -> Extent {
        let mut extent = Extent::default();
        // SAFETY: the image is a detoasted jsonb; its header holds its size.
        if unsafe { pgrx::varsize_any(self.as_ptr().cast()) } < unasked {
            return extent;
        }
        // SAFETY: the root is a valid container, and outlives the iterator.
        let mut iterator = unsafe { pg_sys::JsonbIteratorInit(self.root()) };
        let mut depth = 0usize;
        while extent.bytes <= limits.bytes && extent.depth <= limits.depth {
            let mut value = pg_sys::JsonbValue::default();
            // SAFETY: the iterator is valid, and the value outlives the call.
            let step = unsafe { pg_sys::JsonbIteratorNext(&mut iterator, &mut value, false) };
            match step {
                pg_sys::JsonbIteratorToken::WJB_DONE => break,
                pg_sys::JsonbIteratorToken::WJB_BEGIN_ARRAY | pg_sys::JsonbIteratorToken::WJB_BEGIN_OBJECT => {
                    depth += 1;
                    extent.depth = extent.depth.max(depth);
                    extent.bytes += BRACKETS;
                }
                pg_sys::JsonbIteratorToken::WJB_END_ARRAY | pg_sys::JsonbIteratorToken::WJB_END_OBJECT => depth -= 1,
                // A key, an element or a value. Only strings and numbers can be longer than a word.
                _ => extent.bytes += SEPARATOR + printed_size(&value),
            }
        }
        extent
    }
}

/// The size of two brackets and the separator after them.
const BRACKETS: usize = 4;
/// The size of a comma or colon and a space.
const SEPARATOR: usize = 2;

#[derive(Debug, Clone, Copy, Default)]
pub struct Extent {
    /// Its length as text, including brackets and separators, rounded up.
    pub bytes: usize,
    /// The nesting depth of arrays and objects.
    pub depth: usize,
}

/// Returns the length of a scalar as text.
fn printed_size(value: &pg_sys::JsonbValue) -> usize {
    match value.type_ {
        // SAFETY: the type says which member of the union is filled.
        pg_sys::jbvType::jbvString => unsafe { text(value) }.bytes().map(escaped_size).sum::<usize>() + 2,
        // SAFETY: the type says that the numeric member is filled. A number can be thousands of times as long as text.
        pg_sys::jbvType::jbvNumeric => unsafe { numeric::print_datum(value.val.numeric.into()) }.len(),
        _ => "false".len(),
    }
}

/// Returns the length of a byte of a string as text.
fn escaped_size(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\x08' | b'\x0c' | b'\n' | b'\r' | b'\t' => 2,
        ..b' ' => "\\u0000".len(),
        _ => 1,
    }
}

impl FromDatum for Jsonb {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Self> {
        if is_null {
            return None;
        }
        // SAFETY: the caller promises a jsonb datum. A detoasted copy is freed again.
        unsafe {
            let plain = pg_sys::pg_detoast_datum(datum.cast_mut_ptr());
            let value = Image::of_varlena(plain.into());
            if !std::ptr::eq(plain, datum.cast_mut_ptr()) {
                pg_sys::pfree(plain.cast());
            }
            Some(Jsonb { value: Rc::new(value) })
        }
    }
}

/// Serialized JSON, which is returned as jsonb.
pub struct JsonText(pub String);

impl IntoDatum for JsonText {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        // serde_json writes NUL as \u0000, so the text has none; jsonb would refuse it anyway.
        let text = std::ffi::CString::new(self.0).ok()?;
        // SAFETY: jsonb_in takes one cstring.
        unsafe { pgrx::direct_function_call_as_datum(pg_sys::jsonb_in, &[Some(text.as_ptr().into())]) }
    }

    fn type_oid() -> pg_sys::Oid {
        pg_sys::JSONBOID
    }
}

argument_of_type!(Jsonb, "jsonb");
type_in_sql!(JsonText, "jsonb");

// SAFETY: the datum is a jsonb, made in the memory of the call.
unsafe impl BoxRet for JsonText {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> pgrx::datum::Datum<'fcx> {
        match self.into_datum() {
            // SAFETY: the datum is a jsonb, made in the memory of the call.
            Some(datum) => unsafe { fcinfo.return_raw_datum(datum) },
            None => fcinfo.return_null(),
        }
    }
}

/// # Safety
/// The string member of the union is filled.
unsafe fn text<'a>(value: &pg_sys::JsonbValue) -> &'a str {
    // SAFETY: guaranteed by the caller; the bytes lie inside the jsonb and are UTF-8, as the database's encoding is.
    unsafe {
        let string = value.val.string;
        let length = usize::try_from(string.len).unwrap_or(0);
        std::str::from_utf8_unchecked(std::slice::from_raw_parts(string.val.cast::<u8>(), length))
    }
}
