//! The word of a client about who acts, and why.

use std::rc::Rc;

/// The word of a client about a call: no identity. Without one it costs nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attribution {
    /// Who acts and why, as the application says.
    pub context: Option<Rc<str>>,
    /// The role of the cell's own session, as the cell says.
    pub cell_role: Option<Rc<str>>,
}

impl Attribution {
    /// Returns the attribution that two stored columns have.
    pub fn stored(context: Option<String>, cell_role: Option<String>) -> Self {
        Attribution { context: context.map(Rc::from), cell_role: cell_role.map(Rc::from) }
    }
}
