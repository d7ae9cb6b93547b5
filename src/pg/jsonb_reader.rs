//! Reads a jsonb token by token where it lies: without copying strings, without recursion, and without a call of Postgres but for
//! numbers that are no small integers. Its form is that of [`super::jsonb_writer`].

use std::ffi::CStr;

use claims_model::token::{Token, Tokens};
use pgrx::pg_sys;

use super::jsonb_form::{ARRAY, ENDS_HERE, NUMBER, PartKind, SCALAR, UNIT};

/// Reads the tokens of a [`super::jsonb::Jsonb`].
pub struct JsonbTokens<'a> {
    /// The outermost container; what it holds is aligned like it.
    bytes: &'a [u8],
    is_begun: bool,
    open: Vec<Opened>,
}

/// A container that is being read.
struct Opened {
    is_object: bool,
    /// Keys, or elements.
    count: usize,
    /// Where the entries are, and what they tell of.
    entries: usize,
    start: usize,
    /// How many keys, or elements, were read.
    read: usize,
    /// The value of the key that was read last is next.
    at_value: bool,
    /// Where the last key, and the last value or element, ends; from `start` on.
    key_end: usize,
    end: usize,
}

/// A key, a value or an element: what it is, and where.
struct JsonPart {
    kind: PartKind,
    from: usize,
    to: usize,
}

impl<'a> JsonbTokens<'a> {
    /// # Safety
    /// The bytes of a jsonb of this database, behind its header, aligned like it.
    pub(super) unsafe fn new(bytes: &'a [u8]) -> Self {
        JsonbTokens { bytes, is_begun: false, open: Vec::new() }
    }

    fn number(&self, at: usize) -> u32 {
        let mut number = [0; UNIT];
        number.copy_from_slice(&self.bytes[at..at + UNIT]);
        u32::from_ne_bytes(number)
    }

    /// Opens the container at a place, and says how it begins.
    fn begin(&mut self, at: usize) -> Token<'a> {
        let header = self.number(at);
        let count = (header & NUMBER) as usize;
        let (is_object, entries) = (header & ARRAY == 0, at + UNIT);
        let parts = if is_object { 2 * count } else { count };
        let mut open = Opened {
            is_object,
            count,
            entries,
            start: entries + parts * UNIT,
            read: 0,
            at_value: false,
            key_end: 0,
            end: 0,
        };
        if is_object {
            open.end = self.keys_end(&open);
        }
        self.open.push(open);
        // A scalar document is an array of one element that says so.
        match (is_object, header & SCALAR != 0) {
            (true, _) => Token::BeginObject,
            (false, false) => Token::BeginArray(count),
            (false, true) => self.next(),
        }
    }

    /// Where the keys of an object end.
    fn keys_end(&self, object: &Opened) -> usize {
        let mut end = 0;
        for at in (0..object.count).rev() {
            let entry = self.number(object.entries + at * UNIT);
            end += (entry & NUMBER) as usize;
            if entry & ENDS_HERE != 0 {
                break;
            }
        }
        end
    }

    /// Moves on to the next key, value or element of the innermost container; `None`: behind the last one.
    fn advance(&mut self) -> Option<(JsonPart, bool)> {
        let open = self.open.last()?;
        let is_key = open.is_object && !open.at_value;
        if !open.at_value && open.read == open.count {
            return None;
        }
        let nth = if open.at_value { open.count + open.read - 1 } else { open.read };
        let entry = self.number(open.entries + nth * UNIT);
        let number = (entry & NUMBER) as usize;
        let open = self.open.last_mut()?;
        let from = if is_key { open.key_end } else { open.end };
        let to = if entry & ENDS_HERE != 0 { number } else { from + number };
        *(if is_key { &mut open.key_end } else { &mut open.end }) = to;
        open.read += usize::from(!open.at_value);
        open.at_value = is_key;
        Some((JsonPart { kind: PartKind::of(entry), from: open.start + from, to: open.start + to }, is_key))
    }

    fn text(&self, part: &JsonPart) -> &'a str {
        // SAFETY: keys and strings are UTF-8, as the database's encoding is.
        unsafe { std::str::from_utf8_unchecked(&self.bytes[part.from..part.to]) }
    }

    fn integer(&self, part: &JsonPart) -> String {
        let numeric = &self.bytes[part.from.next_multiple_of(UNIT)..part.to];
        // SAFETY: there is a numeric, aligned as one.
        small_integer(numeric).map_or_else(|| unsafe { printed(numeric) }, |number| number.to_string())
    }
}

impl<'a> Tokens<'a> for JsonbTokens<'a> {
    fn next(&mut self) -> Token<'a> {
        if !self.is_begun {
            self.is_begun = true;
            return self.begin(0);
        }
        let Some((part, is_key)) = self.advance() else {
            return match self.open.pop() {
                Some(Opened { is_object: true, .. }) => Token::EndObject,
                Some(_) => Token::EndArray,
                None => Token::Null,
            };
        };
        match part.kind {
            PartKind::String if is_key => Token::Key(self.text(&part)),
            PartKind::String => Token::Text(self.text(&part)),
            PartKind::Numeric => Token::Number(self.integer(&part)),
            PartKind::Bool => Token::Bool,
            PartKind::Container => self.begin(part.from.next_multiple_of(UNIT)),
            PartKind::Null => Token::Null,
        }
    }

    fn skip_value(&mut self) {
        self.is_begun = true;
        self.advance();
    }
}

// The two forms of a numeric (utils/numeric.c): behind its header of four bytes two with sign, scale and weight, where they are small,
// and then digits to the base of 10000, but for zeros at the end.
const FORM: u16 = 0xC000;
const SHORT: u16 = 0x8000;
const NEGATIVE: u16 = 0x2000;
const SCALE: u16 = 0x1F80;
const NEGATIVE_WEIGHT: u16 = 0x0040;
const WEIGHT: u16 = 0x003F;

/// A numeric that is an integer of at most 16 digits; `None`: another one.
fn small_integer(numeric: &[u8]) -> Option<i64> {
    let (words, rest) = numeric.get(UNIT..)?.as_chunks::<2>();
    let (header, digits) = words.split_first()?;
    let header = u16::from_ne_bytes(*header);
    let weight = usize::from(header & WEIGHT);
    if header & FORM != SHORT || header & (SCALE | NEGATIVE_WEIGHT) != 0 || weight > 3 || !rest.is_empty() {
        return None;
    }
    let digit = |at| digits.get(at).map_or(0, |digit| i64::from(i16::from_ne_bytes(*digit)));
    let number = (0..=weight).fold(0, |number, at| number * 10_000 + digit(at));
    Some(if header & NEGATIVE != 0 { -number } else { number })
}

/// # Safety
/// A numeric, aligned as one.
unsafe fn printed(numeric: &[u8]) -> String {
    // SAFETY: by the caller; numeric_out returns a palloc'ed cstring, which is copied and freed.
    unsafe {
        let numeric = pg_sys::Datum::from(numeric.as_ptr());
        let Some(printed) = pgrx::direct_function_call_as_datum(pg_sys::numeric_out, &[Some(numeric)]) else {
            return String::new();
        };
        let printed: *mut std::ffi::c_char = printed.cast_mut_ptr();
        let copy = CStr::from_ptr(printed).to_string_lossy().into_owned();
        pg_sys::pfree(printed.cast());
        copy
    }
}
