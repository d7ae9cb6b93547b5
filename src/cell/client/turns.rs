//! Limits how many calls the sessions of this server make to a service at the same time, if the library is preloaded.
//! `claims_model::turns` has the rules.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use claims_model::turns::{Arrival, ServiceKey, Ticket, Turns};
use pgrx::pg_sys::Oid;

use super::places::{self, key};
use crate::error::{CellError, ClaimsError};
use crate::pg::shared::Locked;
use crate::pg::{background, wait};
use crate::settings;

pub static TURNS: Locked<Turns> = Locked::new(c"claims turns");

/// The place of this process among the callers of a service.
#[derive(Clone, Copy)]
enum Place {
    Calling(ServiceKey),
    Waiting(ServiceKey, Ticket),
}

impl Place {
    fn service(self) -> ServiceKey {
        match self {
            Place::Calling(service) | Place::Waiting(service, _) => service,
        }
    }
}

thread_local! {
    /// The places of this process, at most one for each service. Left by the guard [`Turn`], or at the exit of the process.
    static OWN: RefCell<Vec<Place>> = const { RefCell::new(Vec::new()) };
    static HAS_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

fn has_place(service: ServiceKey) -> bool {
    OWN.with_borrow(|own| own.iter().any(|place| place.service() == service))
}

/// Sets the place of this process among the callers of a service.
fn take_place(place: Place) {
    OWN.with_borrow_mut(|own| {
        own.retain(|other| other.service() != place.service());
        own.push(place);
    });
}

/// A guard: this session may make one call. The call ends when the guard is dropped, also after an error.
///
/// A session that calls several services at once takes its turns in the order of the servers' oids, so no two sessions wait for each other.
pub struct Turn {
    /// The service at which the call counts.
    counted_at: Option<ServiceKey>,
    /// How long this session has waited for it.
    pub waited: Duration,
}

impl Turn {
    /// Waits for the turn of this session. If it has to wait, it first calls `before_waiting`, whose error ends it. Raises 53300 at the
    /// deadline.
    pub fn wait(
        server: &str,
        service: Oid,
        deadline: Instant,
        before_waiting: impl FnOnce() -> Result<(), ClaimsError>,
    ) -> Result<Turn, ClaimsError> {
        let limit = settings::max_service_calls();
        let key = key(service);
        // A call within a call is no further one.
        if limit == 0 || service == Oid::INVALID || has_place(key) {
            return Ok(Turn { counted_at: None, waited: Duration::ZERO });
        }
        if !HAS_CALLBACK.replace(true) {
            background::at_exit(leave_all);
        }
        let arrival = TURNS.write(|turns| {
            let arrival = turns.arrive(key, limit, background::own_sleeper());
            match arrival {
                Arrival::Now => take_place(Place::Calling(key)),
                Arrival::Wait(ticket) => take_place(Place::Waiting(key, ticket)),
                Arrival::Uncounted | Arrival::Full => {}
            }
            arrival
        });
        let mut turn = Turn { counted_at: has_place(key).then_some(key), waited: Duration::ZERO };
        let too_many = || {
            places::call_failed(service);
            CellError::TooManyCalls { server: server.to_owned(), limit }
        };
        match arrival {
            None | Some(Arrival::Now | Arrival::Uncounted) => Ok(turn),
            Some(Arrival::Full) => Err(too_many().into()),
            Some(Arrival::Wait(ticket)) => {
                before_waiting()?;
                let since = Instant::now();
                let comes = turn.comes(ticket, key, deadline);
                turn.waited = since.elapsed();
                if comes { Ok(turn) } else { Err(too_many().into()) }
            }
        }
    }

    /// Waits until it is the turn of a ticket. Returns `false` at the deadline.
    fn comes(&self, ticket: Ticket, key: ServiceKey, deadline: Instant) -> bool {
        loop {
            let take = |turns: &mut Turns| {
                let is_taken = turns.take(ticket);
                if is_taken {
                    take_place(Place::Calling(key));
                }
                is_taken
            };
            if TURNS.write(take).unwrap_or(true) {
                return true;
            }
            let time = deadline.saturating_duration_since(Instant::now());
            if time.is_zero() {
                return false;
            }
            wait::sleep(time);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(service) = self.counted_at {
            leave(service);
        }
    }
}

/// Ends all calls of this process, at its exit.
fn leave_all() {
    let services: Vec<_> = OWN.with_borrow(|own| own.iter().map(|place| place.service()).collect());
    services.into_iter().for_each(leave);
}

/// Ends the call of this process to a service, or its waiting, and wakes those whose turn comes thereby.
fn leave(service: ServiceKey) {
    let place = OWN
        .with_borrow_mut(|own| own.iter().position(|place| place.service() == service).map(|at| own.swap_remove(at)));
    let Some(place) = place else { return };
    let limit = settings::max_service_calls();
    TURNS.write(|turns| {
        let service = match place {
            Place::Calling(service) => {
                turns.end(service);
                service
            }
            Place::Waiting(service, ticket) => {
                turns.give_up(ticket);
                service
            }
        };
        // If the limit was lifted meanwhile, everybody who waits may call.
        let limit = if limit == 0 { u32::MAX } else { limit };
        while let Some(process) = turns.next_turn(service, limit) {
            background::wake_sleeper(process);
        }
    });
}
