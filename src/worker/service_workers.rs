//! Runs a worker for each service of a database, if it has several.
//!
//! A job waits for the service that it calls. With one process for each service, one that does not answer holds up no leases of another
//! one, and jobs are straight code. The worker of the database then calls no service, so it never waits, and starts the other workers.

use std::collections::HashMap;
use std::time::Duration;

use pgrx::pg_sys::Oid;

use super::supervision::Supervision;
use crate::cell::attended_cells::Attended;
use crate::cell::workers;
use crate::worker::errors::warn_of_no_slot_for_service;
use pg::background::Worker;

/// The workers for services, by their foreign servers.
#[derive(Default)]
pub struct ServiceWorkers(HashMap<Oid, Supervision>);

impl ServiceWorkers {
    /// Starts the workers that are missing. Leaves in `cells` those whose services the worker of the database calls itself: an only
    /// service, one whose foreign server does not exist, and those for whose workers the server has no room. Returns how long to wait
    /// before the next check, if one is needed.
    pub fn attend_to(&mut self, cells: &mut Vec<Attended>, worker: &str, database: &str) -> Option<Duration> {
        let services = with_workers(cells);
        // The workers of services that are not attended any more end by themselves.
        self.0.retain(|server, _| services.iter().any(|(other, _)| other == server));
        let served = workers::served_servers();
        let attend = |(server, service): &(Oid, &str)| {
            let start = || start(*server, service, worker, database);
            self.0.entry(*server).or_default().attend_to(served.contains(server), start)
        };
        let next_check = services.iter().filter_map(attend).min();
        cells.retain(|cell| {
            let supervision = cell.server.and_then(|server| self.0.get(&server));
            supervision.is_none_or(Supervision::has_no_room)
        });
        next_check.map(|pause| pause.max(Duration::from_millis(10)))
    }
}

/// Leaves in `cells` those of a service, if it should have a worker.
pub fn retain_served(cells: &mut Vec<Attended>, server: Oid) {
    let is_served = with_workers(cells).iter().any(|(other, _)| *other == server);
    cells.retain(|cell| is_served && cell.server == Some(server));
}

/// Returns the services that should have a worker, each with its foreign server, in the order of the cells.
fn with_workers(cells: &[Attended]) -> Vec<(Oid, &str)> {
    let mut services: Vec<(Oid, &str)> = Vec::new();
    for cell in cells {
        if let Some(server) = cell.server
            && !services.iter().any(|(other, _)| *other == server)
        {
            services.push((server, &cell.service));
        }
    }
    if services.len() > 1 { services } else { Vec::new() }
}

fn start(server: Oid, service: &str, worker: &str, database: &str) -> Option<Worker> {
    let room = workers::has_room_for_service();
    let started = room.then(|| Worker::start_helper(worker, database, server.to_u32())).flatten();
    if started.is_none() {
        warn_of_no_slot_for_service(worker, service, database);
    }
    started
}
