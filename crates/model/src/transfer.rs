//! Transfers of claims from one cell to another: of those of some subjects, or of all that the cell has.

use std::collections::BTreeSet;
use std::fmt::Write;

use strum::{EnumString, IntoStaticStr};

use crate::payload::request_digest;
use crate::problem::{BadInput, JsonPath, Problem};
use crate::reader;
use crate::types::Types;
use claims_json::Tokens;

/// The largest number of subjects of one transfer.
pub const MAX_SUBJECTS: usize = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, EnumString)]
#[strum(serialize_all = "snake_case")]
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
        self.into()
    }

    pub fn named(name: &str) -> Option<Self> {
        name.parse().ok()
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
}

/// The claims of a cell that a transfer moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    Subjects(Subjects),
    WholeCell,
}

impl Scope {
    /// Returns the subjects, or `None` for a whole cell.
    pub fn subjects(&self) -> Option<&Subjects> {
        match self {
            Scope::Subjects(subjects) => Some(subjects),
            Scope::WholeCell => None,
        }
    }

    /// Returns the digest that tells a repeated request from another one. It covers the cells and the subjects, in any
    /// order and spelling.
    pub fn digest(&self, from_cell: i64, to_cell: i64) -> [u8; 32] {
        let mut text = format!("{from_cell} {to_cell}");
        match self {
            Scope::Subjects(subjects) => {
                for (type_id, id) in subjects.iter() {
                    // An id may hold any character, so its length precedes it.
                    let _ = write!(text, " {type_id} {} {id}", id.len());
                }
            }
            // The text of subjects continues with a number.
            Scope::WholeCell => text.push_str(" whole"),
        }
        request_digest(&text, None)
    }
}

/// The modes of a cell and of all cells, as text. Every change of one of them makes another seal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal(String);

impl Seal {
    /// Makes a seal of the times at which the modes of the cell and of all cells were set.
    pub fn new(of_cell: Option<i64>, of_all: Option<i64>) -> Self {
        let text = |since: Option<i64>| since.map_or_else(|| "-".to_owned(), |since| since.to_string());
        Seal(format!("{} {}", text(of_cell), text(of_all)))
    }

    pub fn decode(text: String) -> Self {
        Seal(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects(list: &[(i32, &str)]) -> Scope {
        Scope::Subjects(Subjects(list.iter().map(|(type_id, id)| (*type_id, (*id).to_owned())).collect()))
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
            Scope::WholeCell.digest(1, 2),
        ];
        assert!(others.iter().all(|other| *other != one.digest(1, 2)));
        assert_ne!(Scope::WholeCell.digest(1, 2), Scope::WholeCell.digest(2, 1));
    }

    #[test]
    fn a_seal_differs_after_every_change_of_a_mode() {
        let seals = [(Some(1), None), (None, Some(1)), (Some(1), Some(1)), (Some(2), Some(1)), (Some(1), Some(2))];
        let seals: Vec<_> = seals.into_iter().map(|(of_cell, of_all)| Seal::new(of_cell, of_all)).collect();
        for (number, seal) in seals.iter().enumerate() {
            assert_eq!(*seal, Seal::decode(seal.as_str().to_owned()));
            assert!(seals[number + 1..].iter().all(|other| other != seal));
        }
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
