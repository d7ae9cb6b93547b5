//! Settles leases of recently committed transactions whose sessions have not settled them, because they are busy or have ended.

use std::time::Duration;

use super::remaining_leases::{self, RemainingLeases};
use crate::cell::client::presented::may_be_outdated;
use crate::cell::client::settlement::Settled;
use crate::cell::client::{Service, unreachable};
use crate::cell::transactions::Transactions;
use crate::cell::{epoch, own_epochs, tracked};

/// Time that a session has to settle its own leases.
const GRACE: Duration = Duration::from_millis(200);
/// Maximum age of a lease. Passes of recovery settle older ones, and report orphans.
const OLDEST: Duration = Duration::from_secs(300);
/// Timeout of a call to the service.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of leases in one call.
const AT_ONCE: i64 = 1000;

/// Commits the leases that a cell has tracked at a service there, and forgets them here. Returns whether no recent lease remains.
pub fn settle<G: Transactions>(transactions: &G, cell_id: i64, server: &str) -> Result<bool, G::Error> {
    let milliseconds = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let (RemainingLeases { ripe, has_unripe }, service, epochs) = transactions.in_database(|connection| {
        let of = (cell_id, server);
        let remaining = remaining_leases::remaining(connection, of, milliseconds(OLDEST), milliseconds(GRACE), AT_ONCE);
        let service =
            if remaining.ripe.is_empty() { None } else { Some(Service::resolved(connection, server, cell_id)?) };
        Ok((remaining, service, own_epochs::committed(cell_id, server)))
    })?;
    let Some(service) = service else { return Ok(!has_unripe) };
    let settle = |presented| match service.settle_leases(Some(presented), (&ripe, &[]), ANSWER_TIMEOUT) {
        Err(error) if may_be_outdated(&error) => Ok(Err(error)),
        answer => answer.map(Ok).map_err(unreachable),
    };
    let mut refused = None;
    let mut settled = Vec::new();
    for candidate in epochs.candidates() {
        match transactions.at_service(|| settle(candidate))? {
            Ok(answer) => {
                (settled, refused) = (answer, None);
                break;
            }
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        None => {}
        // A pass of this database has presented a newer epoch meanwhile: the caller tries again in a moment.
        Some(_) if transactions.in_database(|_| Ok(own_epochs::committed(cell_id, server)))? != epochs => {
            return Ok(false);
        }
        // Or it was promoted, and has told the service only now that it acts.
        Some(_) if epoch::show(transactions, &service)? == Some(true) => return Ok(false),
        Some(error) => return Err(error.into()),
    }
    let committed: Vec<_> = settled.into_iter().filter(Settled::is_committed).map(|one| one.lease).collect();
    transactions.in_database(|connection| {
        tracked::forget(connection, &committed, Some(&[cell_id]));
        Ok(())
    })?;
    // The caller tries leases that were busy again in a moment. Recovery reports orphans.
    Ok(!has_unripe && ripe.len() < AT_ONCE as usize)
}
