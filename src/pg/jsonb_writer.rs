//! Makes jsonb in the form in which Postgres stores it, without a text in between that would have to be parsed.

use super::image::{HEADER, Image, header};
use super::jsonb::Jsonb;
use super::jsonb_form::{ARRAY, CONTAINER, ENDS_HERE, NUMBER, OBJECT, STRIDE, STRING, UNIT};

/// A jsonb in the making.
pub struct JsonbWriter {
    bytes: Vec<u8>,
}

/// The kind of what was written, for the container that it is a part of.
#[derive(Debug, Clone, Copy)]
pub struct Written(u32);

/// A key of an object, and who writes its value.
pub type Field<'f> = (&'f str, &'f dyn Fn(&mut JsonbWriter) -> Written);

/// A container whose parts are being written.
struct Unclosed {
    /// Where the entries of the parts that come next are.
    entry: usize,
    /// How many parts there are so far.
    parts: usize,
    /// Where the parts begin, and the last one ends.
    start: usize,
    end: usize,
}

impl Jsonb {
    /// An object with these fields, in the order of their keys. `None`: it is larger than a jsonb can be.
    pub fn object(fields: &[Field]) -> Option<Jsonb> {
        let mut writer = JsonbWriter { bytes: vec![0; HEADER] };
        writer.object(fields);
        if writer.bytes.len() > NUMBER as usize {
            return None;
        }
        let size = header(writer.bytes.len());
        writer.bytes[..HEADER].copy_from_slice(&size);
        // SAFETY: it is in the form of a jsonb, as above.
        Some(unsafe { Jsonb::of_image(Image::of(&writer.bytes)) })
    }
}

impl JsonbWriter {
    /// A string without zero bytes.
    pub fn text(&mut self, text: &str) -> Written {
        self.bytes.extend_from_slice(text.as_bytes());
        Written(STRING)
    }

    /// An object with these fields, in the order of their keys.
    pub fn object(&mut self, fields: &[Field]) -> Written {
        debug_assert!(fields.is_sorted_by_key(|(key, _)| (key.len(), *key)));
        let mut open = self.open(OBJECT, fields.len(), 2 * fields.len());
        for (key, _) in fields {
            let part = self.text(key);
            self.close_part(&mut open, part);
        }
        for (_, write) in fields {
            let part = write(self);
            self.close_part(&mut open, part);
        }
        Written(CONTAINER)
    }

    /// An array of what `write` makes of the items.
    pub fn array<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T) -> Written,
    ) -> Written {
        let mut open = self.open(ARRAY, items.len(), items.len());
        for item in items {
            let part = write(self, item);
            self.close_part(&mut open, part);
        }
        Written(CONTAINER)
    }

    fn open(&mut self, kind: u32, count: usize, parts: usize) -> Unclosed {
        self.bytes.resize(self.bytes.len().next_multiple_of(UNIT), 0);
        self.bytes.extend((kind | number(count)).to_ne_bytes());
        let entry = self.bytes.len();
        let start = entry + parts * UNIT;
        self.bytes.resize(start, 0);
        Unclosed { entry, parts: 0, start, end: 0 }
    }

    /// Writes the entry of the part that was written last.
    fn close_part(&mut self, open: &mut Unclosed, Written(kind): Written) {
        let end = self.bytes.len() - open.start;
        let place = if open.parts.is_multiple_of(STRIDE) { ENDS_HERE | number(end) } else { number(end - open.end) };
        self.bytes[open.entry..open.entry + UNIT].copy_from_slice(&(kind | place).to_ne_bytes());
        *open = Unclosed { entry: open.entry + UNIT, parts: open.parts + 1, start: open.start, end };
    }
}

/// As headers and entries have it. What does not fit makes the whole too large.
fn number(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(NUMBER) & NUMBER
}
