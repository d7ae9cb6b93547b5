//! What one call hands out of an entity: the first of its requests, no more than it may hold in memory.

use std::ops::ControlFlow;

use claims_model::limits::PAGE_BYTES;

use crate::pg::spi::Connection;
use crate::store::holds::requests::{self, Candidate, Outstanding};

/// A request that is handed out.
pub struct Handed {
    pub id: i64,
    pub is_create: bool,
    pub payload: Option<String>,
}

/// The first of an entity's requests, which are all locked and either a create or updates, by id. The rest stays locked as
/// long as these are in hand, and comes with the next take.
pub fn first(connection: &Connection, queue: &str, candidate: &Candidate, requests: Vec<Outstanding>) -> Vec<Handed> {
    let is_create = requests.iter().any(|request| request.is_create);
    let mut portion =
        Portion { connection, queue, entity: &candidate.entity, is_create, requests: Vec::new(), bytes: 0 };
    let _ = portion.fill(candidate.id, requests);
    portion.requests
}

/// What a row takes besides its texts.
const ROW_BYTES: usize = 100;

/// Requests of one entity as they are gathered. `Break`: there is no room for more.
struct Portion<'p> {
    connection: &'p Connection,
    queue: &'p str,
    entity: &'p str,
    is_create: bool,
    requests: Vec<Handed>,
    bytes: usize,
}

impl Portion<'_> {
    /// Of the request by which the entity was found the payload is there already.
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
        let mut room = ControlFlow::Continue(());
        requests::payloads(self.connection, self.queue, ids, |id, payload| {
            room = self.put(id, payload);
            room
        });
        room
    }

    /// Takes one more in, if there is room for it; the first one in any case.
    fn put(&mut self, id: i64, payload: Option<String>) -> ControlFlow<()> {
        self.bytes += ROW_BYTES + self.entity.len() + payload.as_ref().map_or(0, String::len);
        if self.bytes > PAGE_BYTES && !self.requests.is_empty() {
            return ControlFlow::Break(());
        }
        self.requests.push(Handed { id, is_create: self.is_create, payload });
        ControlFlow::Continue(())
    }
}
