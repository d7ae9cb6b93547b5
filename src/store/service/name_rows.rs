//! Names of a bucket type, and what becomes of them when its profile changes, wherever they are stored.

/// A name as it is stored.
pub struct Stored {
    pub value: String,
    pub display: Option<String>,
    pub cell_id: i64,
    pub is_leased: bool,
}

impl Stored {
    /// As it was given.
    pub fn given(&self) -> &str {
        self.display.as_deref().unwrap_or(&self.value)
    }
}

/// A name that becomes another one, and the form in which it was given where that is a third one.
pub struct Renaming {
    pub old: String,
    pub new: String,
    pub display: Option<String>,
}

/// Rows that are written by one statement.
pub(super) const PORTION: usize = 10_000;
