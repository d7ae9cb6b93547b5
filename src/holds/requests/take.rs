//! `take_requests`: the first request that can be worked on, and all others that are taken with it.

use claims_model::limits::KIND_CHARS;
use std::collections::{HashSet, VecDeque};

use pgrx::PgSqlErrorCode as Code;
use pgrx::Uuid as PgUuid;
use pgrx::datum::Interval;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use super::portion::{self, Handed};
use super::{hands, hints, unblock};
use crate::access;
use crate::arguments;
use crate::pg::advisory;
use crate::pg::clock::Moment;
use crate::pg::jsonb::JsonText;
use crate::pg::settings::LockWaits;
use crate::pg::spi::{self, Connection};
use crate::pg::subtransaction::{Undone, WITHOUT_WAITING, subtransaction};
use crate::pg::xact;
use crate::store::holds::requests::{self, Candidate, InHand, Outstanding};

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
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
        process: access::given(process_id, "process_id")?,
        after_id: access::given(after_id, "after_id")?,
        hold_until: hold_for.map(|hold| arguments::deadline(Some(hold), "hold_for", now)).transpose()?,
        now,
    };
    let taken = spi::connect(|connection| take(connection, &order));
    let rows = taken.into_iter().flat_map(|Taken { entity, portion }| {
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
    /// `None`: for the length of the transaction.
    hold_until: Option<Moment>,
    now: Moment,
}

/// What is handed out: a create, or updates, as many as one call may hold in memory.
struct Taken {
    entity: String,
    portion: Vec<Handed>,
}

/// Nothing more can be taken.
struct NotTaken;

/// How often a search may run into a lock.
const PATIENCE: usize = 20;

fn take(connection: &Connection, order: &Order) -> Option<Taken> {
    let mut search = Search::begin(connection, order);
    let mut patience = PATIENCE;
    let _waits = LockWaits::limit(WITHOUT_WAITING);
    loop {
        check_for_interrupts!();
        let mut candidate = None;
        // Rows of an entity that then cannot be taken must not stay locked.
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
            (Err(_), Some(candidate)) => search.pass_over(candidate),
            // The search itself ran into a lock, in the gap of SKIP LOCKED (see `without_waiting`).
            (Err(Undone::ByError(_)), None) if patience > 0 => patience -= 1,
            (Err(_), None) => return None,
        }
    }
}

fn in_hand(order: &Order, taken: Taken) -> Taken {
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

/// One way through a queue: ready requests, and between them, where their ids say so, expired holds and updates whose
/// create was marked.
struct Search<'o> {
    order: &'o Order,
    /// The last id that was examined; `None`: nothing is ready.
    after: Option<i64>,
    /// Candidates that are not among the ready requests, by id.
    unseen: VecDeque<Candidate>,
    /// The entities whose creates are marked.
    waiting: HashSet<String>,
    passed_over: Vec<String>,
}

impl<'o> Search<'o> {
    fn begin(connection: &Connection, order: &'o Order) -> Self {
        let horizon = hints::look(connection, &order.queue);
        let waiting =
            if horizon.has_marked { unblock::waiting(connection, &order.queue, order.after_id) } else { Vec::new() };
        let passed_over = hands::entities(&order.queue);
        let waiting_entities = waiting.iter().map(|candidate| candidate.entity.clone()).collect();
        let expired = match horizon.first_hold {
            Some(first) if first <= order.now => {
                requests::expired(connection, &order.queue, order.now, order.after_id, first)
            }
            _ => Vec::new(),
        };
        let mut unseen: Vec<_> = expired.into_iter().chain(waiting).collect();
        unseen.retain(|candidate| !passed_over.contains(&candidate.entity));
        unseen.sort_by_key(|candidate| candidate.id);
        let after = horizon.first.map(|first| order.after_id.max(first - 1));
        Search { order, after, unseen: unseen.into(), waiting: waiting_entities, passed_over }
    }

    fn next(&mut self, connection: &Connection) -> Option<Candidate> {
        let before = self.unseen.front().map_or(i64::MAX, |candidate| candidate.id);
        let found = self.after.and_then(|after| {
            requests::find(connection, &self.order.queue, (after, before), &self.passed_over, self.order.now)
        });
        found.or_else(|| self.unseen.pop_front())
    }

    fn pass_over(&mut self, candidate: Candidate) {
        self.after = self.after.map(|after| after.max(candidate.id));
        self.unseen.retain(|other| other.entity != candidate.entity);
        self.passed_over.push(candidate.entity);
    }
}

/// Locks an entity and takes what can be taken of it. Raises if another transaction has locked any of its requests.
fn take_entity(connection: &Connection, order: &Order, candidate: &Candidate) -> Option<Taken> {
    let locked = lock_entity(connection, order, candidate)?;
    let requests = choose(connection, order, candidate, locked)?;
    let mut expired: Vec<_> = requests.iter().filter(|request| request.in_progress).map(|request| request.id).collect();
    if !expired.is_empty() {
        requests::leave_word(connection, &order.queue, &expired, order.process);
    }
    let portion = portion::first(connection, &order.queue, candidate, requests);
    match order.hold_until {
        Some(until) => {
            let ids: Vec<_> = portion.iter().map(|request| request.id).collect();
            // Those that are not handed out are new again.
            expired.retain(|id| ids.last().is_none_or(|last| id > last));
            renew(connection, &order.queue, &expired);
            requests::begin_anew(connection, order.process, &order.queue, &ids);
            requests::hold(connection, &order.queue, &ids, order.process, until);
            hints::held(&order.queue, until);
            // The hold must survive a crash.
            xact::commit_durably();
        }
        None => renew(connection, &order.queue, &expired),
    }
    Some(Taken { entity: candidate.entity.clone(), portion })
}

/// Requests whose hold has expired are new again, also for the search of this session, which may have started above them.
fn renew(connection: &Connection, queue: &str, expired: &[i64]) {
    if let Some(first) = expired.iter().min() {
        requests::renew(connection, queue, expired);
        hints::lower(queue, *first);
    }
}

/// Locks all outstanding requests of an entity; `None` if another transaction has taken the entity.
///
/// Of two takers the one with the newer snapshot finds a row that the other one has locked. Only requests that a
/// transaction recorded itself are invisible to others: for them an advisory lock is used. A transaction with such requests
/// takes that lock and then reads again; one without checks that the lock is free once its rows are locked. So the later
/// one always sees the other.
fn lock_entity(connection: &Connection, order: &Order, candidate: &Candidate) -> Option<Vec<Outstanding>> {
    let lock = || requests::lock_entity(connection, &order.queue, candidate, order.now);
    let key = entity_key(&order.queue, &candidate.entity);
    let locked = lock();
    if !locked.iter().any(|request| request.own) {
        return advisory::is_free(key).then_some(locked);
    }
    // With one snapshot for the whole transaction it cannot read again: own requests have to wait for its end.
    (!xact::keeps_one_snapshot() && advisory::try_lock(key)).then(lock)
}

/// A create is taken alone; updates are taken together, once no create is before them. Decided by what is committed
/// now, after everything visible is locked: a process that works on the entity has been found by then.
fn choose(
    connection: &Connection,
    order: &Order,
    candidate: &Candidate,
    locked: Vec<Outstanding>,
) -> Option<Vec<Outstanding>> {
    let standing = requests::standing(connection, &order.queue, &candidate.entity, order.now);
    if locked.is_empty() || standing.held || locked.iter().any(|request| request.held) {
        return None;
    }
    let create = locked.iter().find(|request| request.is_create).map(|request| (request.id, request.in_progress));
    match create {
        Some((id, expired)) if id == candidate.id || (expired && id > order.after_id) => {
            Some(locked.into_iter().filter(|request| request.is_create).collect())
        }
        Some(_) => None,
        None => match standing.create.as_deref() {
            None | Some("complete") => Some(locked),
            Some(_) => None,
        },
    }
}

/// FNV-1a of the queue and the entity.
fn entity_key(queue: &str, entity: &str) -> i64 {
    let bytes = b"claims.requests\0".iter().chain(queue.as_bytes()).chain(b"\0").chain(entity.as_bytes());
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    hash.cast_signed()
}
