//! Passes: recovery, verification and purging leave a row in `claims.passes`.

use crate::error::Failure;
use crate::pg::clock::Moment;
use crate::pg::spi::Connection;
use crate::store::pass_log::{self, PassEntry};

/// A pass in progress.
pub struct Pass<'a> {
    pub kind: &'static str,
    pub cell_id: Option<i64>,
    pub source_type: Option<&'a str>,
    started_at: Moment,
}

impl<'a> Pass<'a> {
    pub fn begin(kind: &'static str, cell_id: Option<i64>, source_type: Option<&'a str>) -> Self {
        Pass { kind, cell_id, source_type, started_at: Moment::now() }
    }

    /// It succeeded, with these counts.
    pub fn succeeded(self, connection: &Connection, counts: &[(&str, i64)]) {
        let counts: serde_json::Map<_, _> =
            counts.iter().map(|(name, count)| ((*name).to_owned(), (*count).into())).collect();
        self.record(connection, Some(serde_json::Value::Object(counts).to_string()), None);
    }

    /// An error ended it, and what it had written is rolled back.
    pub fn failed(self, connection: &Connection, failure: &Failure) {
        self.record(connection, None, Some((failure.sqlstate.clone(), failure.message.clone())));
    }

    fn record(self, connection: &Connection, counts: Option<String>, error: Option<(String, String)>) {
        let Pass { kind, cell_id, source_type, started_at } = self;
        pass_log::record(connection, PassEntry { kind, cell_id, source_type, started_at, counts, error });
    }
}
