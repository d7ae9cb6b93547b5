//! The form in which Postgres stores a jsonb (`utils/jsonb.h`), the same on disk since 9.4.
//!
//! A container is a header with its kind and the number of its elements, an entry for each key and each value, and behind these what
//! they hold, at multiples of four where it is a container itself or a number. An entry has the kind of its part and either the
//! part's length, which includes what aligns it, or, in every 32nd, where it ends. Keys come before values, ordered by length and then
//! by bytes.

pub const ARRAY: u32 = 0x4000_0000;
pub const OBJECT: u32 = 0x2000_0000;
/// An array that stands for its one element.
pub const SCALAR: u32 = 0x1000_0000;

pub const STRING: u32 = 0;
pub const CONTAINER: u32 = 0x5000_0000;
const NUMERIC: u32 = 0x1000_0000;
const FALSE: u32 = 0x2000_0000;
const TRUE: u32 = 0x3000_0000;
const KIND_BITS: u32 = 0x7000_0000;
/// The entry says where its part ends.
pub const ENDS_HERE: u32 = 0x8000_0000;
/// The bits of a header, and of an entry, that are a number.
pub const NUMBER: u32 = 0x0FFF_FFFF;
/// Which entries say where their parts end.
pub const STRIDE: usize = 32;
/// The size of headers and entries, and what is aligned is at multiples of it.
pub const UNIT: usize = size_of::<u32>();

/// What a key, a value or an element is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    String,
    Numeric,
    Bool,
    Null,
    Container,
}

impl PartKind {
    /// By its entry.
    pub fn of(entry: u32) -> Self {
        match entry & KIND_BITS {
            STRING => PartKind::String,
            NUMERIC => PartKind::Numeric,
            FALSE | TRUE => PartKind::Bool,
            CONTAINER => PartKind::Container,
            _ => PartKind::Null,
        }
    }
}
