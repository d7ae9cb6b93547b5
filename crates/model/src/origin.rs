//! The declaration of a claimed column, from which a captured claim comes.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::enforcement::Enforcement;

/// A declaration, with the names that errors of a save have.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// The oid of the table.
    pub table: u32,
    pub schema_name: String,
    pub table_name: String,
    pub column_name: String,
    /// The column's name, quoted where SQL needs that.
    pub quoted_column: String,
    /// The name of the declaration, which is unique for its column.
    pub name: String,
    pub constraint_name: String,
    pub enforcement: Enforcement,
}

/// The declaration that a claim comes from, if it is known. It does not distinguish claims: all origins are equal.
#[derive(Debug, Clone, Default)]
pub struct Origin(pub Option<Rc<Declared>>);

impl PartialEq for Origin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Origin {}

impl PartialOrd for Origin {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Origin {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}
