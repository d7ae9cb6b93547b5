//! `unclaimed_rows`: says whether every row of a source type has its claim. Changes nothing.
//!
//! Digests count claims that leases hold. So before it compares them, a call waits for two kinds of names whose fate is open: those of
//! transactions that have written the tables, which may observe, and those of leases that no committed transaction here tracks. The latter are
//! leases of saves that gave up waiting for the service: recovery rolls them back.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use claims_model::routes::{Route, Routes};
use claims_model::source_range::SourceRange;
use claims_model::verify::{Discrepancy, Outcome};
use claims_model::{BadInput, Problem};
use uuid::Uuid;

use super::begin::must_be_claimed;
use super::compare::ComparedRange;
use super::errors::VerificationError;
use super::expected::{Expected, Summary};
use super::progress::{Progress, Tally};
use super::walk::{Findings, Verification, WalkExtent, Walked};
use super::writers;
use crate::cell::client::{Service, unreachable};
use crate::cell::{reading, routes, tracked};
use crate::kernel::arguments;
use crate::kernel::error::ClaimsError;
use pg::prelude::*;
use pg::spi::{self, Connection};
use pg::{wait, xact};

/// Longest time to wait for transactions and leases that were open when the call began, and interval between two looks.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);
const OPEN_INTERVAL: Duration = Duration::from_millis(50);
/// Number of leases in a page, and longest list.
const LEASES_IN_PAGE: i64 = 10_000;
const MAX_LEASES: usize = 1_000_000;
/// Timeout of a list of leases.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_NAMES: i32 = 1000;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn unclaimed_rows(
    source_type: Option<String>,
    cell_id: default!(Option<i64>, "NULL"),
    service: default!(Option<String>, "NULL"),
    after: default!(Option<String>, "NULL"),
    max_runtime: default!(Option<Interval>, "NULL"),
    max_names: default!(Option<i32>, 10),
) -> Result<
    TableIterator<
        'static,
        (
            name!(service, String),
            name!(unclaimed, i64),
            name!(in_progress, i64),
            name!(first_names, Vec<String>),
            name!(checked, i64),
            name!(finished, bool),
            name!(cursor, Option<String>),
        ),
    >,
    ErrorReport,
> {
    // On a standby, changes that are not replayed yet would look like missing claims.
    xact::must_not_be_standby(c"claims.unclaimed_rows()");
    let began = Instant::now();
    let rows = spi::connect(|connection| {
        arguments::require!(source_type, max_names);
        let automatic = routes::automatic(connection);
        let cell_id = cell_id.or(automatic.as_ref().map(|routes| routes.cell_id));
        let no_service = || VerificationError::NoService { source_type: source_type.clone() };
        let cell_id = cell_id.ok_or_else(no_service)?;
        let source_type = reading::source_type_of(connection, cell_id, &source_type)?;
        let after = arguments::source_range(after, None).map_err(|_| BadInput::new("after", Problem::BadCursor))?.above;
        let deadline = arguments::end_of_runtime(max_runtime, began)?;
        let most_names = match usize::try_from(max_names) {
            Ok(most) if max_names <= MAX_NAMES => most,
            _ => return Err(BadInput::new("max_names", Problem::OutOfRange { allowed: "0 to 1000" }).into()),
        };
        if xact::uses_transaction_snapshot() {
            return Err(VerificationError::OldSnapshot.into());
        }
        let services = match service {
            Some(service) => vec![service.into()],
            None => services(connection, automatic.as_deref(), cell_id, &source_type)?,
        };
        if after.is_some() && services.len() > 1 {
            return Err(BadInput::new("service", Problem::Null).into());
        }
        let search = UnclaimedSearch { connection, cell_id, source_type: &source_type, most_names, deadline };
        let rows = services.into_iter().map(|service| search.at(service, after.clone()).map_err(unreachable));
        rows.collect::<Result<Vec<_>, ClaimsError>>()
    })?;
    Ok(TableIterator::new(rows))
}

/// Returns the services at which automatic mode claims the names of a source type.
fn services(
    connection: &Connection,
    automatic: Option<&Routes>,
    cell_id: i64,
    source_type: &str,
) -> Result<Vec<Rc<str>>, ClaimsError> {
    let no_service = || VerificationError::NoService { source_type: source_type.to_owned() };
    let routes = automatic.filter(|routes| routes.cell_id == cell_id).ok_or_else(no_service)?;
    let expected = Expected::of(connection, source_type, false);
    must_be_claimed(&expected, source_type)?;
    let mut services: Vec<Rc<str>> = Vec::new();
    for attribute in expected.attributes() {
        let Some(Route::Service(service)) = routes.of(&attribute.bucket_type) else { return Err(no_service().into()) };
        if !services.contains(&service) {
            services.push(service);
        }
    }
    if services.is_empty() {
        // All declarations are off.
        services.push(routes.services().next().ok_or_else(no_service)?);
    }
    Ok(services)
}

/// The arguments of a call.
struct UnclaimedSearch<'s> {
    connection: &'s Connection,
    cell_id: i64,
    source_type: &'s str,
    most_names: usize,
    deadline: Option<Instant>,
}

/// The row of a service.
type UnclaimedRow = (String, i64, i64, Vec<String>, i64, bool, Option<String>);

impl UnclaimedSearch<'_> {
    /// Looks for rows above a source id that have no claim at a service.
    fn at(&self, server: Rc<str>, after: Option<String>) -> Result<UnclaimedRow, ClaimsError> {
        let UnclaimedSearch { connection, cell_id, source_type, most_names, deadline } = *self;
        let expected = Expected::at(connection, source_type, &server);
        let verification = Verification { deadline, ..Verification::new(&expected, &server, cell_id, source_type) };
        let walked = verification.walk(WalkExtent::Above(after), |service| {
            let open = self.wait_for_open(&expected, service)?;
            let progress = Progress::begin(cell_id, source_type, expected.estimated_rows());
            Ok(Unclaimed { tally: Tally::default(), progress, rows: 0, open, names: Vec::new(), most_names })
        })?;
        let Walked { findings: Unclaimed { tally, rows, open, names, .. }, position, finished } = walked;
        let finished = finished?;
        let checked = tally.checked - tally.extra;
        Ok((server.to_string(), rows, open, names, checked, finished, position.filter(|_| !finished)))
    }

    /// Waits for the end of transactions that have written the tables, and of leases that no committed transaction tracks. Returns how many are
    /// still open.
    fn wait_for_open(&self, expected: &Expected, service: &Service) -> Result<i64, ClaimsError> {
        let until = Instant::now() + OPEN_TIMEOUT;
        let until = self.deadline.map_or(until, |deadline| until.min(deadline));
        let tables: Vec<_> = expected.attributes().iter().map(|attribute| attribute.table()).collect();
        let mut open = writers::writers(self.connection, &tables);
        while !open.is_empty() && Instant::now() < until {
            wait::sleep(OPEN_INTERVAL);
            let still: HashSet<_> = writers::writers(self.connection, &tables).into_iter().collect();
            open.retain(|writer| still.contains(writer));
        }
        let mut leases = self.untracked(service)?;
        while !leases.is_empty() && Instant::now() < until {
            wait::sleep(OPEN_INTERVAL);
            let still = self.untracked(service)?;
            leases.retain(|lease| still.contains(lease));
        }
        Ok((open.len() + leases.len()) as i64)
    }

    /// Returns the outstanding leases of the cell that no committed transaction of this database tracks.
    fn untracked(&self, service: &Service) -> Result<HashSet<Uuid>, ClaimsError> {
        let (mut untracked, mut cursor) = (HashSet::new(), None);
        let mut listed_leases = 0;
        loop {
            let never = Interval::from_seconds(0.0);
            let page = service.list_leases(cursor.take(), LEASES_IN_PAGE, never, ANSWER_TIMEOUT)?;
            if page.leases.is_empty() {
                return Ok(untracked);
            }
            listed_leases += page.leases.len();
            if listed_leases > MAX_LEASES {
                // A service may list without end. The leases that were not looked at are open.
                untracked.extend(page.leases.iter().map(|lease| lease.lease));
                return Ok(untracked);
            }
            let listed = page.leases.iter().map(|lease| (lease.lease, lease.cell_xid));
            let states = tracked::states(self.connection, listed);
            untracked.extend(states.into_iter().filter(|state| !state.tracked).map(|state| state.lease));
            cursor = page.last_cursor;
        }
    }
}

/// Counts rows without claims.
struct Unclaimed<'p> {
    tally: Tally,
    progress: Progress<'p>,
    /// Number of rows without claims.
    rows: i64,
    /// Number of claims that a lease or another transaction is changing, and of ranges that differed and have no discrepancy any more.
    open: i64,
    names: Vec<String>,
    most_names: usize,
}

impl Findings for Unclaimed<'_> {
    /// Returns `false` for a range with rows that can have no claim: digests do not contain them.
    fn are_in_order(&mut self, expected: &Summary) -> bool {
        if expected.unclaimable > 0 {
            return false;
        }
        self.tally.add_in_order(expected);
        true
    }

    fn compared(&mut self, _: &SourceRange, compared: ComparedRange) {
        self.tally.add(&compared);
        if compared.reported == 0 && compared.found.is_empty() {
            // The digests differed. Either a claim was made since, or the service conceals that one is missing.
            self.open += 1;
        }
        for found in compared.found {
            match (found.discrepancy, found.outcome) {
                (Discrepancy::Extra, _) => {}
                (_, Some(Outcome::Leased | Outcome::Busy | Outcome::Recent)) => self.open += 1,
                _ => {
                    self.rows += 1;
                    if self.names.len() < self.most_names {
                        self.names.push(found.bucket_value);
                    }
                }
            }
        }
    }

    fn reached(&mut self, position: Option<&str>) {
        self.progress.show(&self.tally, position);
    }

    fn are_enough(&self) -> bool {
        false
    }
}
