//! Reads jsonb token by token in place, without recursion and without copies of strings. With a call of PostgreSQL for each token a begin and commit
//! would take 4 % more instructions, of a hundred claims 8 % (bench/PROFILE.md). [`super::jsonb_writer`] describes the format.

use claims_json::{Token, Tokens};
use pgrx::pg_sys::{
    JB_CMASK, JB_FOBJECT, JB_FSCALAR, JENTRY_HAS_OFF, JENTRY_ISBOOL_FALSE, JENTRY_ISBOOL_TRUE, JENTRY_ISCONTAINER,
    JENTRY_ISNUMERIC, JENTRY_ISSTRING, JENTRY_OFFLENMASK, JENTRY_TYPEMASK,
};

use super::numeric;

/// The size of a container's header, of an entry, and of the unit to which containers and numbers are aligned.
pub(super) const WORD: usize = 4;

pub struct JsonbTokens<'a> {
    /// The root container and everything in it, aligned as PostgreSQL aligns it.
    root: &'a [u8],
    /// The open containers, the innermost one last.
    open: Vec<Container>,
    has_begun: bool,
}

/// A container that is being read.
struct Container {
    /// The position of its entries, and of the bytes of its values.
    entries: usize,
    data: usize,
    is_object: bool,
    /// The number of its values. An object has as many keys before them.
    count: usize,
    /// The number of values that were read.
    read: usize,
    /// Whether the key of the next value was read.
    has_key: bool,
    /// Where the bytes of the next key, and of the next value or element begin.
    next_key: usize,
    next_value: usize,
}

/// The bytes of a value.
struct Slot {
    kind: u32,
    start: usize,
    end: usize,
}

impl<'a> JsonbTokens<'a> {
    /// Returns the tokens of a jsonb, from its bytes after the varlena header.
    pub(super) fn of(root: &'a [u8]) -> Self {
        JsonbTokens { root, open: Vec::new(), has_begun: false }
    }

    /// Returns the bytes of the array or object of a key, if the root is an object that has one. They are a jsonb of their own, without the header.
    pub(super) fn container(&self, key: &str) -> Option<&'a [u8]> {
        let header = word(self.root, 0);
        if header & JB_FOBJECT == 0 {
            return None;
        }
        let count = ((header & JB_CMASK) as usize).min(self.root.len() / WORD);
        let data = WORD + 2 * count * WORD;
        let (mut end, mut wanted) = (0, None);
        // The keys come first, and then their values in the same order.
        for number in 0..2 * count {
            let slot = slot(self.root, WORD, number, end);
            end = slot.end;
            if number < count && text(self.root, data, &slot) == key {
                wanted = Some(count + number);
            } else if wanted == Some(number) {
                let aligned = data + slot.start.next_multiple_of(WORD);
                return self.root.get(aligned..data + slot.end).filter(|_| slot.kind == JENTRY_ISCONTAINER);
            }
        }
        None
    }

    /// Opens the container at a position. Returns its first token, or `None` for one that only wraps a scalar.
    fn begin(&mut self, at: usize) -> Option<Token<'a>> {
        let header = word(self.root, at);
        let (count, is_object) = ((header & JB_CMASK) as usize, header & JB_FOBJECT != 0);
        // A damaged value has no more entries than words.
        let count = count.min(self.root.len() / WORD);
        let entries = at + WORD;
        let words = if is_object { 2 * count } else { count };
        let data = entries + words * WORD;
        let mut container =
            Container { entries, data, is_object, count, read: 0, has_key: false, next_key: 0, next_value: 0 };
        if is_object {
            // The values begin where the last key ends.
            for number in 0..count {
                container.next_value = slot(self.root, entries, number, container.next_value).end;
            }
        }
        self.open.push(container);
        match (is_object, header & JB_FSCALAR != 0) {
            (true, _) => Some(Token::BeginObject),
            (false, true) => None,
            (false, false) => Some(Token::BeginArray(count)),
        }
    }

    fn step(&mut self, skips_nested: bool) -> Token<'a> {
        // An argument may have millions of tokens.
        pgrx::check_for_interrupts!();
        if !self.has_begun {
            self.has_begun = true;
            return self.begin(0).unwrap_or_else(|| self.step(skips_nested));
        }
        let root = self.root;
        let Some(container) = self.open.last_mut() else { return Token::Null };
        let (data, is_object) = (container.data, container.is_object);
        if container.read == container.count {
            self.open.pop();
            return if is_object { Token::EndObject } else { Token::EndArray };
        }
        if is_object && !container.has_key {
            let key = slot(root, container.entries, container.read, container.next_key);
            (container.next_key, container.has_key) = (key.end, true);
            return Token::Key(text(root, data, &key));
        }
        let number = if is_object { container.count + container.read } else { container.read };
        let value = slot(root, container.entries, number, container.next_value);
        (container.next_value, container.has_key) = (value.end, false);
        container.read += 1;
        let aligned = data + value.start.next_multiple_of(WORD);
        match value.kind {
            JENTRY_ISSTRING => Token::Text(text(root, data, &value)),
            JENTRY_ISNUMERIC => {
                Token::Number(root.get(aligned..data + value.end).map_or_else(String::new, numeric::print))
            }
            JENTRY_ISBOOL_FALSE | JENTRY_ISBOOL_TRUE => Token::Bool,
            JENTRY_ISCONTAINER if skips_nested => Token::BeginObject,
            JENTRY_ISCONTAINER => self.begin(aligned).unwrap_or(Token::Null),
            _ => Token::Null,
        }
    }
}

/// Returns a word of a container. Returns 0, an empty string's entry, where a damaged value has none.
fn word(root: &[u8], at: usize) -> u32 {
    let word = root.get(at..at + WORD).and_then(|bytes| bytes.try_into().ok());
    word.map_or(0, u32::from_ne_bytes)
}

/// Returns the bytes of an entry, which begin where those of the entry before end.
fn slot(root: &[u8], entries: usize, number: usize, start: usize) -> Slot {
    let entry = word(root, entries + number * WORD);
    let extent = (entry & JENTRY_OFFLENMASK) as usize;
    let end = if entry & JENTRY_HAS_OFF != 0 { extent } else { start + extent };
    Slot { kind: entry & JENTRY_TYPEMASK, start, end }
}

fn text<'a>(root: &'a [u8], data: usize, slot: &Slot) -> &'a str {
    let bytes = root.get(data + slot.start..data + slot.end).unwrap_or_default();
    // SAFETY: the bytes are UTF-8, as the database's encoding is.
    unsafe { std::str::from_utf8_unchecked(bytes) }
}

impl<'a> Tokens<'a> for JsonbTokens<'a> {
    fn next(&mut self) -> Token<'a> {
        self.step(false)
    }

    fn skip_value(&mut self) {
        self.step(true);
    }
}
