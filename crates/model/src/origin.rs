//! The declaration of a claimed column, from which a captured claim comes.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::enforcement::Enforcement;

/// The approval of a declaration by a role that may act for a cell, or by an administrator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Approval {
    /// The oid of the role that owned the table. `None`: the declaration was not approved.
    pub owner: Option<u32>,
    /// The cell. `None`: an administrator has approved the declaration for any.
    pub cell_id: Option<i64>,
}

impl Approval {
    /// Returns whether the declaration may claim names for a cell while a role owns the table.
    pub fn covers(&self, owner: u32, cell_id: i64) -> bool {
        self.owner == Some(owner) && self.cell_id.is_none_or(|of| of == cell_id)
    }
}

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
    /// The oid of the role that owns the table.
    pub owner: u32,
    pub approval: Approval,
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

#[cfg(test)]
mod tests {
    use super::Approval;

    #[test]
    fn an_approval_ends_with_the_owner_and_with_the_cell() {
        let by_cell = Approval { owner: Some(10), cell_id: Some(1) };
        assert!(by_cell.covers(10, 1) && !by_cell.covers(11, 1) && !by_cell.covers(10, 2));
        let by_administrator = Approval { owner: Some(10), cell_id: None };
        assert!(by_administrator.covers(10, 1) && by_administrator.covers(10, 2) && !by_administrator.covers(11, 1));
        assert!(!Approval::default().covers(10, 1));
    }
}
