//! `take_requests`: takes the first request that is ready, and all others of its entity.

use std::collections::{HashSet, VecDeque};

use claims_model::hash::fnv1a;
use claims_model::limits::KIND_CHARS;
use pgrx::PgSqlErrorCode as Code;

use super::hands::{self, InHand};
use super::portion::{self, Handed};
use super::probes::NEAR;
use super::statements::{self as requests, Candidate, Outstanding};
use super::{hints, unblock};
use crate::kernel::arguments;
use pg::clock::Moment;
use pg::jsonb::JsonText;
use pg::prelude::*;
use pg::settings::LockWaits;
use pg::spi::{self, Connection};
use pg::subtransaction::{NO_WAIT_LIMIT_MS, Undone, subtransaction};
use pg::{advisory, xact};

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
pub fn take_requests(
    queue: Option<String>,
    process_id: Option<PgUuid>,
    after_id: default!(Option<i64>, 0),
    hold_for: default!(Option<Interval>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (name!(id, i64), name!(entity, String), name!(request_type, String), name!(payload, Option<JsonText>)),
    >,
    ErrorReport,
> {
    let now = Moment::now();
    let order = Order {
        queue: arguments::text(queue, "queue", KIND_CHARS)?,
        process: arguments::required(process_id, "process_id")?,
        after_id: arguments::required(after_id, "after_id")?,
        hold_until: hold_for.map(|hold| arguments::deadline(Some(hold), "hold_for", now)).transpose()?,
        now,
    };
    let taken = spi::connect(|connection| take(connection, &order));
    let rows = taken.into_iter().flat_map(|TakenRequests { entity, portion }| {
        portion.into_iter().map(move |request| {
            let request_type = if request.is_create { "create" } else { "update" };
            (request.id, entity.clone(), request_type.to_owned(), request.payload.map(JsonText))
        })
    });
    Ok(TableIterator::new(rows.collect::<Vec<_>>()))
}

/// The arguments of a take.
struct Order {
    queue: String,
    process: PgUuid,
    after_id: i64,
    /// `None` if the requests are held until the transaction ends.
    hold_until: Option<Moment>,
    now: Moment,
}

/// The requests that a take returns: a create, or as many updates as fit into one call.
struct TakenRequests {
    entity: String,
    portion: Vec<Handed>,
}

/// No more requests can be taken.
struct NotTaken;

/// The number of times that a search may meet a lock.
const MAX_LOCKED_ATTEMPTS: usize = 20;

fn take(connection: &Connection, order: &Order) -> Option<TakenRequests> {
    let mut search = Search::begin(connection, order);
    let mut attempts_left = MAX_LOCKED_ATTEMPTS;
    let _waits = LockWaits::limit(NO_WAIT_LIMIT_MS);
    loop {
        check_for_interrupts!();
        let mut candidate = None;
        // The subtransaction releases the locks of an entity that could not be taken.
        let attempt = subtransaction(&[Code::ERRCODE_LOCK_NOT_AVAILABLE], || {
            candidate = Some(search.next(connection).ok_or(NotTaken)?);
            let candidate = candidate.as_ref().ok_or(NotTaken)?;
            let taken = take_entity(connection, order, candidate).ok_or(NotTaken)?;
            if search.waiting.contains(&candidate.entity) {
                unblock::open_taken(connection, &order.queue, &candidate.entity);
            }
            Ok::<_, NotTaken>(taken)
        });
        match (attempt, candidate) {
            (Ok(taken), _) => return Some(in_hand(order, taken)),
            (Err(_), Some(candidate)) => search.skip(candidate),
            // The search itself met a lock, in the gap of SKIP LOCKED (see `without_waiting`).
            (Err(Undone::ByError(_)), None) if attempts_left > 0 => attempts_left -= 1,
            (Err(_), None) => return None,
        }
    }
}

fn in_hand(order: &Order, taken: TakenRequests) -> TakenRequests {
    hints::touch();
    if order.hold_until.is_none() {
        let in_hand = InHand {
            queue: order.queue.clone(),
            entity: taken.entity.clone(),
            is_create: taken.portion.iter().any(|request| request.is_create),
            ids: taken.portion.iter().map(|request| request.id).collect(),
        };
        hands::take(order.process, in_hand);
    }
    taken
}

/// One pass over a queue: the ready requests and, merged by id, expired holds and updates whose create is marked.
struct Search<'o> {
    order: &'o Order,
    /// The last id that was examined, or `None` if no request is ready.
    after: Option<i64>,
    /// The candidates that are not among the ready requests, by id.
    unseen: VecDeque<Candidate>,
    /// The entities whose creates are marked.
    waiting: HashSet<String>,
    skipped: Vec<String>,
}

impl<'o> Search<'o> {
    fn begin(connection: &Connection, order: &'o Order) -> Self {
        let horizon = hints::start(connection, &order.queue);
        let waiting =
            if horizon.has_marked { unblock::waiting(connection, &order.queue, order.after_id) } else { Vec::new() };
        let skipped = hands::entities(&order.queue);
        let waiting_entities = waiting.iter().map(|candidate| candidate.entity.clone()).collect();
        let expired = match horizon.first_hold {
            Some(first) if first <= order.now => {
                requests::expired(connection, &order.queue, order.now, order.after_id, first)
            }
            _ => Vec::new(),
        };
        let mut unseen: Vec<_> = expired.into_iter().chain(waiting).collect();
        unseen.retain(|candidate| !skipped.contains(&candidate.entity));
        unseen.sort_by_key(|candidate| candidate.id);
        let after = horizon.first.map(|first| order.after_id.max(first - 1));
        Search { order, after, unseen: unseen.into(), waiting: waiting_entities, skipped }
    }

    fn next(&mut self, connection: &Connection) -> Option<Candidate> {
        let before = self.unseen.front().map_or(i64::MAX, |candidate| candidate.id);
        let find =
            |after, before| requests::find(connection, &self.order.queue, after, before, &self.skipped, self.order.now);
        let found = self.after.and_then(|after| {
            let far = after.saturating_add(NEAR).min(before);
            find(after, far).or_else(|| (far < before).then(|| find(far - 1, before)).flatten())
        });
        found.or_else(|| self.unseen.pop_front())
    }

    fn skip(&mut self, candidate: Candidate) {
        self.after = self.after.map(|after| after.max(candidate.id));
        self.unseen.retain(|other| other.entity != candidate.entity);
        self.skipped.push(candidate.entity);
    }
}

/// Locks an entity and takes its requests. Raises an error if another transaction has locked any of them.
fn take_entity(connection: &Connection, order: &Order, candidate: &Candidate) -> Option<TakenRequests> {
    let locked = lock_entity(connection, order, candidate)?;
    let requests = choose(connection, order, candidate, locked)?;
    let mut expired: Vec<_> = requests.iter().filter(|request| request.in_progress).map(|request| request.id).collect();
    if !expired.is_empty() {
        requests::record_lost_holds(connection, &order.queue, &expired, order.process);
    }
    let portion = portion::first(connection, &order.queue, candidate, requests);
    match order.hold_until {
        Some(until) => {
            let ids: Vec<_> = portion.iter().map(|request| request.id).collect();
            // The requests that are not returned become new again.
            expired.retain(|id| ids.last().is_none_or(|last| id > last));
            renew(connection, &order.queue, &expired);
            requests::forget_lost_holds(connection, order.process, &order.queue, &ids);
            requests::hold(connection, &order.queue, &ids, order.process, until);
            hints::held(&order.queue, until);
            // The process relies on the hold, so it must survive a crash.
            xact::commit_durably();
        }
        None => renew(connection, &order.queue, &expired),
    }
    Some(TakenRequests { entity: candidate.entity.clone(), portion })
}

/// Makes requests with an expired hold new again, also for the search of this session, which may have started above
/// them.
fn renew(connection: &Connection, queue: &str, expired: &[i64]) {
    if let Some(first) = expired.iter().min() {
        requests::renew(connection, queue, expired);
        hints::lower(queue, *first);
    }
}

/// Locks all outstanding requests of an entity. Returns `None` if another transaction has taken the entity.
///
/// Of two concurrent takers the one with the newer snapshot finds a row that the other one has locked. Only requests
/// that a transaction has recorded itself are invisible to others, and for them an advisory lock is used. A transaction
/// with such requests takes that lock and then reads again. A transaction without them checks that the lock is free
/// after it has locked its rows. So the later one always notices the other.
fn lock_entity(connection: &Connection, order: &Order, candidate: &Candidate) -> Option<Vec<Outstanding>> {
    let lock = || requests::lock_entity(connection, &order.queue, &candidate.entity, order.now, candidate.id);
    let key = entity_key(&order.queue, &candidate.entity);
    let locked = lock();
    if !locked.iter().any(|request| request.own) {
        return advisory::is_free(key).then_some(locked);
    }
    // With one snapshot for the whole transaction it cannot read again, so its own requests wait until it ends.
    (!xact::uses_transaction_snapshot() && advisory::try_lock(key)).then(lock)
}

/// Chooses the requests to take: a create alone, or all updates if no create precedes them. It decides by the committed
/// state after every visible row is locked. So it has found any process that works on the entity.
fn choose(
    connection: &Connection,
    order: &Order,
    candidate: &Candidate,
    locked: Vec<Outstanding>,
) -> Option<Vec<Outstanding>> {
    let state = requests::entity_state(connection, &order.queue, &candidate.entity, order.now).unwrap_or_default();
    if locked.is_empty() || state.held || locked.iter().any(|request| request.held) {
        return None;
    }
    let create = locked.iter().find(|request| request.is_create).map(|request| (request.id, request.in_progress));
    match create {
        Some((id, expired)) if id == candidate.id || (expired && id > order.after_id) => {
            Some(locked.into_iter().filter(|request| request.is_create).collect())
        }
        Some(_) => None,
        None => match state.create.as_deref() {
            None | Some("complete") => Some(locked),
            Some(_) => None,
        },
    }
}

/// Returns a hash of the queue and the entity.
fn entity_key(queue: &str, entity: &str) -> i64 {
    let bytes = b"claims.requests\0".iter().chain(queue.as_bytes()).chain(b"\0").chain(entity.as_bytes());
    fnv1a(bytes.copied()).cast_signed()
}
