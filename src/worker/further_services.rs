//! Runs a worker of its own for each further service of a database.
//!
//! A job waits for the service that it calls. With one process for each service, one that does not answer holds up no leases of another
//! one, and jobs are straight code. The worker of the database calls the first service, and starts the other workers.

use std::collections::HashMap;
use std::time::Duration;

use pgrx::pg_sys::Oid;

use super::supervision::Supervision;
use crate::cell::workers;
use crate::error;
use crate::pg::background::Worker;
use crate::store::worker::Attended;

/// The workers for further services, by their foreign servers.
#[derive(Default)]
pub struct FurtherServices(HashMap<Oid, Supervision>);

impl FurtherServices {
    /// Starts the workers that are missing. Leaves in `cells` those whose services the worker of the database calls itself: the first
    /// service, and services for whose workers the server has no room. Returns how long to wait before the next check, if one is needed.
    pub fn attend_to(&mut self, cells: &mut Vec<Attended>, worker: &str, database: &str) -> Option<Duration> {
        let further: HashMap<Oid, String> =
            further(cells).map(|(server, cell)| (server, cell.service.clone())).collect();
        // The workers of services that are not attended any more end by themselves.
        self.0.retain(|server, _| further.contains_key(server));
        let served = workers::served_servers();
        let attend = |(server, service): (&Oid, &String)| {
            let start = || start(*server, service, worker, database);
            self.0.entry(*server).or_default().attend_to(served.contains(server), start)
        };
        let next_check = further.iter().filter_map(attend).min();
        let is_own = |server: Oid| self.0.get(&server).is_none_or(Supervision::has_no_room);
        cells.retain(|cell| cell.server.is_none_or(is_own));
        next_check.map(|pause| pause.max(Duration::from_millis(10)))
    }
}

/// Leaves in `cells` those of a further service, whose worker this process is.
pub fn retain_further(cells: &mut Vec<Attended>, server: Oid) {
    let is_further = further(cells).any(|(further, _)| further == server);
    cells.retain(|cell| is_further && cell.server == Some(server));
}

/// Returns the cells at further services, with the foreign servers of these. Services of the same foreign server are one.
fn further(cells: &[Attended]) -> impl Iterator<Item = (Oid, &Attended)> {
    let with_server = || cells.iter().filter_map(|cell| Some((cell.server?, cell)));
    let first = with_server().next().map(|(server, _)| server);
    with_server().filter(move |(server, _)| Some(*server) != first)
}

fn start(server: Oid, service: &str, worker: &str, database: &str) -> Option<Worker> {
    let room = workers::has_room_for_service();
    let started = room.then(|| Worker::start_helper(worker, database, server.to_u32())).flatten();
    if started.is_none() {
        error::warn_of_no_slot_for_service(worker, service, database);
    }
    started
}
