//! Estimates how many rows of a table need a claim.

use super::expected::{Attribute, ShareLock};
use pg::query::Answer;
use pg::spi::Connection;

impl Attribute {
    /// Estimates the number of rows that need a claim. The last ANALYZE counted the rows of the table, and the planner knows from its statistics
    /// which share of them is not NULL and meets the condition.
    pub fn estimated_rows(&self, connection: &Connection) -> i64 {
        let planned = |query: &str| {
            let text = format!("EXPLAIN {query}");
            let line: Option<String> = self.as_owner(|| Answer::of(&connection.run_text(&text, [])));
            line.as_deref().and_then(planned_rows)
        };
        let all = planned(&format!("SELECT FROM {}", self.from()));
        let share = match (planned(&self.query("true", ShareLock::None)), all) {
            (Some(needed), Some(all)) if all > 0.0 => (needed / all).min(1.0),
            _ => 1.0,
        };
        (self.rows as f64 * share).round() as i64
    }
}

/// Returns the number of rows in the first line of a plan: `Seq Scan on t  (cost=0.00..1.50 rows=50 width=8)`.
fn planned_rows(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once(" rows=")?;
    rest.split(' ').next()?.parse().ok()
}
