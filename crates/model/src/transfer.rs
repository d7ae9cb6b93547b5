//! Transfers of the claims of some subjects from one cell to another.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::payload::request_digest;
use crate::problem::{BadInput, JsonPath, Problem};
use crate::reader;
use crate::types::Types;
use claims_json::Tokens;

/// The largest number of subjects of one transfer.
pub const MAX_SUBJECTS: usize = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferState {
    /// Claims are being marked.
    Preparing,
    /// All claims are marked.
    Prepared,
    /// Every read returns the new cell.
    Switched,
    /// Claims become ACTIVE again, at the cell that reads return.
    Finishing,
    Finished,
    Cancelled,
}

impl TransferState {
    /// Returns the name that is stored and shown.
    pub fn name(self) -> &'static str {
        match self {
            TransferState::Preparing => "preparing",
            TransferState::Prepared => "prepared",
            TransferState::Switched => "switched",
            TransferState::Finishing => "finishing",
            TransferState::Finished => "finished",
            TransferState::Cancelled => "cancelled",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        use TransferState::*;
        [Preparing, Prepared, Switched, Finishing, Finished, Cancelled].into_iter().find(|one| one.name() == name)
    }
}

/// The subjects of a transfer, each once: type and id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subjects(BTreeSet<(i32, String)>);

impl Subjects {
    /// Reads `[{"type": …, "ids": […]}, …]`.
    pub fn read<'a>(tokens: &mut impl Tokens<'a>, types: &Types) -> Result<Self, BadInput> {
        let argument = JsonPath::Argument("subjects");
        let mut subjects = BTreeSet::new();
        let mut named = 0usize;
        let within = |count| {
            let problem = Problem::TooMany { what: "subjects", got: count, limit: MAX_SUBJECTS };
            if count > MAX_SUBJECTS { Err(BadInput::new(argument, problem)) } else { Ok(()) }
        };
        reader::list(tokens, &argument, within, |tokens, path| {
            let (type_id, ids) = reader::subjects(tokens, path, types)?;
            named += ids.len();
            within(named)?;
            subjects.extend(ids.into_iter().map(|id| (type_id, id.into_owned())));
            Ok(())
        })?;
        if subjects.is_empty() {
            return Err(BadInput::new(argument, Problem::OutOfRange { allowed: "an array with at least one id" }));
        }
        Ok(Subjects(subjects))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (i32, &str)> {
        self.0.iter().map(|(type_id, id)| (*type_id, id.as_str()))
    }

    /// Returns the digest that tells a repeated request from another one. It covers the cells and the subjects, in any
    /// order and spelling.
    pub fn digest(&self, from_cell: i64, to_cell: i64) -> [u8; 32] {
        let mut text = format!("{from_cell} {to_cell}");
        for (type_id, id) in self.iter() {
            // An id may hold any character, so its length precedes it.
            let _ = write!(text, " {type_id} {} {id}", id.len());
        }
        request_digest(&text, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects(list: &[(i32, &str)]) -> Subjects {
        Subjects(list.iter().map(|(type_id, id)| (*type_id, (*id).to_owned())).collect())
    }

    #[test]
    fn the_digest_goes_by_cells_and_subjects_in_any_order() {
        let one = subjects(&[(2, "1"), (3, "7")]);
        assert_eq!(one.digest(1, 2), subjects(&[(3, "7"), (2, "1"), (2, "1")]).digest(1, 2));
        let others = [
            one.digest(2, 1),
            subjects(&[(2, "1")]).digest(1, 2),
            subjects(&[(2, "1"), (2, "7")]).digest(1, 2),
            subjects(&[(2, "1 3 1 7")]).digest(1, 2),
        ];
        assert!(others.iter().all(|other| *other != one.digest(1, 2)));
    }

    #[test]
    fn every_state_has_its_name() {
        use TransferState::*;
        for state in [Preparing, Prepared, Switched, Finishing, Finished, Cancelled] {
            assert_eq!(TransferState::named(state.name()), Some(state));
        }
        assert_eq!(TransferState::named("moved"), None);
    }
}
