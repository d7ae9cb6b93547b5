//! The requests of an entity that one call returns: the first ones, up to a limit of memory.

use std::ops::ControlFlow;

use claims_model::limits::PAGE_BYTES;

use super::statements::{self as requests, Candidate, Outstanding, Payload};
use pg::spi::Connection;

/// A request to return.
pub struct Handed {
    pub id: i64,
    pub is_create: bool,
    pub payload: Option<String>,
}

/// Returns the first of an entity's requests, by id. All are locked, and they are either one create or updates. The
/// remaining ones stay locked as long as these are taken, and come with the next take.
pub fn first(connection: &Connection, queue: &str, candidate: &Candidate, requests: Vec<Outstanding>) -> Vec<Handed> {
    let is_create = requests.iter().any(|request| request.is_create);
    let mut portion =
        Portion { connection, queue, entity: &candidate.entity, is_create, requests: Vec::new(), bytes: 0 };
    let _ = portion.fill(candidate.id, requests);
    portion.requests
}

/// The bytes of a row besides its texts.
const ROW_BYTES: usize = 100;

/// The requests of one entity that are being collected. Its methods return Break when the limit is reached.
struct Portion<'p> {
    connection: &'p Connection,
    queue: &'p str,
    entity: &'p str,
    is_create: bool,
    requests: Vec<Handed>,
    bytes: usize,
}

impl Portion<'_> {
    /// Reads the payloads, except that of request `found`: the query that found the entity has read it.
    fn fill(&mut self, found: i64, requests: Vec<Outstanding>) -> ControlFlow<()> {
        let ids: Vec<_> = requests.iter().map(|request| request.id).collect();
        let Some(at) = ids.iter().position(|id| *id == found) else { return self.read(&ids) };
        self.read(&ids[..at])?;
        self.put(found, requests.into_iter().nth(at).and_then(|request| request.payload))?;
        self.read(&ids[at + 1..])
    }

    fn read(&mut self, ids: &[i64]) -> ControlFlow<()> {
        if ids.is_empty() {
            return ControlFlow::Continue(());
        }
        let mut has_room = ControlFlow::Continue(());
        requests::payloads(self.connection, self.queue, ids, |Payload { id, payload }| {
            has_room = self.put(id, payload);
            has_room
        });
        has_room
    }

    /// Adds a request if it fits, and the first one in any case.
    fn put(&mut self, id: i64, payload: Option<String>) -> ControlFlow<()> {
        self.bytes += ROW_BYTES + self.entity.len() + payload.as_ref().map_or(0, String::len);
        if self.bytes > PAGE_BYTES && !self.requests.is_empty() {
            return ControlFlow::Break(());
        }
        self.requests.push(Handed { id, is_create: self.is_create, payload });
        ControlFlow::Continue(())
    }
}
