//! `path`: like `casefold`, and refuses empty segments and the segments `.` and `..`.

use std::borrow::Cow;

use crate::fold::casefold;
use crate::problem::{NameFault, NamePart, NameProblem};
use crate::tables::UnicodeTables;

pub fn path<T: UnicodeTables>(input: &str) -> Result<Cow<'_, str>, NameProblem> {
    let canonical = casefold::<T>(input)?;
    for (index, segment) in canonical.split('/').enumerate() {
        let reason = match segment {
            "" => NameFault::Empty,
            "." | ".." => NameFault::DotSegment,
            _ => continue,
        };
        return Err(NameProblem { place: NamePart::Segment(index + 1), reason });
    }
    Ok(canonical)
}
