//! Builds jsonb from its parts, in the form in which it is stored. PostgreSQL's own functions build a tree of all values first, and then write that:
//! a begin and commit would take 3 % more instructions, of a hundred claims 5 % (bench/PROFILE.md).
//!
//! The format is that of `convertToJsonb`, and the same in all versions of PostgreSQL: a container is a header with the number of its elements, an entry
//! for each key, value or element, and their bytes. An entry has the length of its bytes or, in every 32nd entry, the offset of their end.
//! `jsonb_forms.sql` compares the result with that of `jsonb_in`, byte by byte.

use std::marker::PhantomData;

use pgrx::pg_sys::{
    JB_FARRAY, JB_FOBJECT, JB_OFFSET_STRIDE, JENTRY_HAS_OFF, JENTRY_ISCONTAINER, JENTRY_ISSTRING, JENTRY_OFFLENMASK,
};

use super::image::HEADER;
use super::jsonb::Jsonb;
use super::jsonb_reader::WORD;

/// A jsonb that is being built from texts that outlive it.
struct JsonbWriter<'t> {
    /// The bytes so far, beginning with room for the header of the whole value.
    bytes: Vec<u8>,
    texts: PhantomData<&'t str>,
}

/// The bytes of most payloads.
const USUAL_BYTES: usize = 512;

/// The position of one missing value. Writing the value consumes it, so exactly one is written.
pub struct MissingValue<'w, 't>(&'w mut JsonbWriter<'t>);

/// The entry of a value that was written.
pub struct Written(u32);

/// The value would have more bytes than a jsonb can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge;

/// A key of an object, and the function that writes its value.
pub type Field<'f, 't> = (&'static str, &'f dyn Fn(MissingValue<'_, 't>) -> Written);

impl Jsonb {
    /// Builds an object with these fields, in jsonb's order of keys: by length, then bytewise.
    pub fn object<'t>(fields: &[Field<'_, 't>]) -> Result<Jsonb, TooLarge> {
        let mut bytes = Vec::with_capacity(USUAL_BYTES);
        bytes.extend([0; HEADER]);
        let mut writer = JsonbWriter { bytes, texts: PhantomData };
        writer.write_object(fields);
        // No number in an entry is larger than that of all bytes.
        if writer.bytes.len() > JENTRY_OFFLENMASK as usize {
            Err(TooLarge)
        } else {
            Ok(Jsonb::of_content(&writer.bytes[HEADER..]))
        }
    }
}

impl<'t> MissingValue<'_, 't> {
    pub fn text(self, text: &'t str) -> Written {
        self.0.write_text(text)
    }

    /// Writes an object with these fields, in jsonb's order of keys.
    pub fn object(self, fields: &[Field<'_, 't>]) -> Written {
        self.0.write_object(fields)
    }

    /// Writes an array, with one element for each item.
    pub fn array<T>(
        self,
        items: impl ExactSizeIterator<Item = T>,
        mut write: impl FnMut(MissingValue<'_, 't>, T) -> Written,
    ) -> Written {
        let writer = self.0;
        let mut container = writer.begin(items.len(), items.len(), JB_FARRAY);
        for item in items {
            pgrx::check_for_interrupts!();
            let written = write(MissingValue(writer), item);
            writer.enter(&mut container, written);
        }
        writer.end(container)
    }
}

/// A container whose elements are being written.
struct OpenContainer {
    /// The position before the padding, which counts as part of the container.
    start: usize,
    /// The position of the next entry.
    next_entry: usize,
    entries: usize,
    /// The number of entries so far, and the number of bytes of their values.
    entered: usize,
    length: usize,
}

impl<'t> JsonbWriter<'t> {
    fn write_text(&mut self, text: &str) -> Written {
        self.bytes.extend_from_slice(text.as_bytes());
        Written(JENTRY_ISSTRING | bounded(text.len()))
    }

    fn write_object(&mut self, fields: &[Field<'_, 't>]) -> Written {
        let order = |(one, _): &Field, (other, _): &Field| (one.len(), *one) < (other.len(), *other);
        assert!(fields.is_sorted_by(order), "keys of an object in another order than jsonb's");
        let mut container = self.begin(fields.len(), 2 * fields.len(), JB_FOBJECT);
        for (key, _) in fields {
            let written = self.write_text(key);
            self.enter(&mut container, written);
        }
        for (_, write) in fields {
            let written = write(MissingValue(self));
            self.enter(&mut container, written);
        }
        self.end(container)
    }

    /// Writes the header of a container, and makes room for its entries.
    fn begin(&mut self, elements: usize, entries: usize, kind: u32) -> OpenContainer {
        let start = self.bytes.len();
        let header = start.next_multiple_of(WORD);
        self.bytes.resize(header, 0);
        self.bytes.extend_from_slice(&(kind | bounded(elements)).to_ne_bytes());
        self.bytes.resize(header + WORD + entries * WORD, 0);
        OpenContainer { start, next_entry: header + WORD, entries, entered: 0, length: 0 }
    }

    /// Writes the entry of the value that was written last.
    fn enter(&mut self, container: &mut OpenContainer, Written(entry): Written) {
        let mut entry = entry;
        container.length += (entry & JENTRY_OFFLENMASK) as usize;
        let end = bounded(container.length);
        if container.entered.is_multiple_of(JB_OFFSET_STRIDE as usize) {
            entry = (entry & !JENTRY_OFFLENMASK) | end | JENTRY_HAS_OFF;
        }
        self.bytes[container.next_entry..container.next_entry + WORD].copy_from_slice(&entry.to_ne_bytes());
        container.next_entry += WORD;
        container.entered += 1;
    }

    fn end(&mut self, container: OpenContainer) -> Written {
        assert!(container.entered == container.entries, "a container has an entry for each value");
        Written(JENTRY_ISCONTAINER | bounded(self.bytes.len() - container.start))
    }
}

/// Returns a number of bytes or elements for an entry. A value with larger numbers is refused when it is whole.
fn bounded(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(JENTRY_OFFLENMASK).min(JENTRY_OFFLENMASK)
}
