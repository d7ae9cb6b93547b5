//! Limits how many calls the sessions of this server make to a service at the same time, if the library is preloaded.
//! `claims_model::turns` has the rules.

use std::cell::Cell;
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

thread_local! {
    /// Left by the guard [`Turn`], or at the exit of the process.
    static OWN: Cell<Option<Place>> = const { Cell::new(None) };
    static HAS_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// A guard: this session may make one call. The call ends when the guard is dropped, also after an error.
pub struct Turn {
    is_counted: bool,
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
        // A call within a call is no further one.
        if limit == 0 || service == Oid::INVALID || OWN.get().is_some() {
            return Ok(Turn { is_counted: false, waited: Duration::ZERO });
        }
        if !HAS_CALLBACK.replace(true) {
            background::at_exit(leave);
        }
        let key = key(service);
        let arrival = TURNS.write(|turns| {
            let arrival = turns.arrive(key, limit, background::own_sleeper());
            OWN.set(match arrival {
                Arrival::Now => Some(Place::Calling(key)),
                Arrival::Wait(ticket) => Some(Place::Waiting(key, ticket)),
                Arrival::Uncounted | Arrival::Full => None,
            });
            arrival
        });
        let mut turn = Turn { is_counted: OWN.get().is_some(), waited: Duration::ZERO };
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
                    OWN.set(Some(Place::Calling(key)));
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
        if self.is_counted {
            leave();
        }
    }
}

/// Ends the call of this process, or its waiting, and wakes those whose turn comes thereby.
fn leave() {
    let Some(place) = OWN.take() else { return };
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
