//! The type tables: names for people, numbers for rows.

use std::collections::HashMap;
use std::sync::Arc;

/// Which of the three type tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Bucket,
    Subject,
    Source,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Bucket => "bucket",
            Kind::Subject => "subject",
            Kind::Source => "source",
        }
    }
}

/// The number that no claim may have.
pub const UNSPECIFIED: i32 = 0;

/// One type table.
#[derive(Debug, Default)]
pub struct TypeTable {
    ids: HashMap<Arc<str>, i32>,
    names: HashMap<i32, Arc<str>>,
}

impl TypeTable {
    pub fn new(rows: impl IntoIterator<Item = (i32, String)>) -> Self {
        let mut table = TypeTable::default();
        for (id, name) in rows {
            let name: Arc<str> = name.into();
            table.ids.insert(name.clone(), id);
            table.names.insert(id, name);
        }
        table
    }

    /// The number of a name; names are compared byte by byte.
    pub fn id(&self, name: &str) -> Option<i32> {
        self.ids.get(name).copied()
    }

    /// The name of a number.
    pub fn name(&self, id: i32) -> Option<&str> {
        self.names.get(&id).map(|name| &**name)
    }
}

/// The three type tables.
#[derive(Debug, Default)]
pub struct Types {
    pub bucket: TypeTable,
    pub subject: TypeTable,
    pub source: TypeTable,
}

impl Types {
    pub fn of(&self, kind: Kind) -> &TypeTable {
        match kind {
            Kind::Bucket => &self.bucket,
            Kind::Subject => &self.subject,
            Kind::Source => &self.source,
        }
    }
}
