//! jsonb arguments, read token by token in place: without conversion to text, without recursion, without copying strings. And
//! JSON on its way to SQL.

use std::rc::Rc;

use claims_model::token::{Token, Tokens};
use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::pg_sys;
use pgrx::{FromDatum, IntoDatum};

use super::image::{HEADER, Image};
use super::jsonb_reader::JsonbTokens;
use super::sql_type::{argument_of_type, type_in_sql};

/// A jsonb value, detoasted, in memory of its own.
#[derive(Clone)]
pub struct Jsonb {
    value: Rc<Image>,
}

impl Jsonb {
    /// The tokens of the value, from its first.
    pub fn tokens(&self) -> JsonbTokens<'_> {
        // SAFETY: the image is a detoasted jsonb (see from_polymorphic_datum): as many bytes as its header says.
        unsafe {
            let size = pgrx::varsize_any(self.as_ptr().cast());
            JsonbTokens::new(&std::slice::from_raw_parts(self.as_ptr(), size)[HEADER..])
        }
    }

    /// # Safety
    /// The image is a jsonb.
    pub(super) unsafe fn of_image(image: Image) -> Self {
        Jsonb { value: Rc::new(image) }
    }

    pub(super) fn as_ptr(&self) -> *const u8 {
        self.value.as_ptr()
    }

    /// The size of the value as text, and its nesting depth. A value of less than `unasked` bytes is not examined.
    /// Stops as soon as one of `limits` is exceeded.
    pub fn extent(&self, unasked: usize, limits: Extent) -> Extent {
        let mut extent = Extent::default();
        // SAFETY: the image is a detoasted jsonb; its header holds its size.
        if unsafe { pgrx::varsize_any(self.as_ptr().cast()) } < unasked {
            return extent;
        }
        let (mut tokens, mut depth) = (self.tokens(), 0usize);
        loop {
            match tokens.next() {
                Token::BeginArray(_) | Token::BeginObject => {
                    depth += 1;
                    extent.depth = extent.depth.max(depth);
                    extent.bytes += BRACKETS;
                }
                Token::EndArray | Token::EndObject => depth -= 1,
                // Of these only strings and numbers are longer than a word.
                part => extent.bytes += SEPARATOR + printed_size(&part),
            }
            if depth == 0 || extent.bytes > limits.bytes || extent.depth > limits.depth {
                return extent;
            }
        }
    }
}

/// Two brackets, and the separator after them.
const BRACKETS: usize = 4;
/// A comma or a colon, and a space.
const SEPARATOR: usize = 2;

/// The size of a value.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extent {
    /// As text, including brackets and separators; rounded up.
    pub bytes: usize,
    /// Arrays and objects inside each other.
    pub depth: usize,
}

/// The length of a key or a scalar as text. A number can be thousands of times as long as it is stored.
fn printed_size(part: &Token) -> usize {
    match part {
        Token::Key(text) | Token::Text(text) => text.bytes().map(escaped_size).sum::<usize>() + 2,
        Token::Number(number) => number.len(),
        _ => "false".len(),
    }
}

/// The length of a byte of a string as text.
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
        // SAFETY: the caller promises a jsonb datum. What was unpacked for this is freed again.
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

/// Serialized JSON, returned as jsonb.
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
            // SAFETY: as above.
            Some(datum) => unsafe { fcinfo.return_raw_datum(datum) },
            None => fcinfo.return_null(),
        }
    }
}
