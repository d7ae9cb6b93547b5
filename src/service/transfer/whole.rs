//! Transfers of all claims of a cell. Such a transfer is prepared when a whole pass has skipped nothing, and nobody can have made a claim
//! of the cell that the pass did not see.
//!
//! A pass that begins under a seal sees all claims. At its beginning
//! - other sessions see the transfer: corrections of the cell's claims, other transfers to it and changes of a profile are refused;
//! - the cell is in mode settle_only, so that it begins no lease;
//! - every transaction that may have missed the transfer or the mode has ended: each of them locks the table before it looks;
//! - no lease of the cell is outstanding: settling it could move a claim to a position that the pass has behind it.
//!
//! The seal is broken by every change of the cell's mode.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use claims_model::mode::Mode;
use claims_model::transfer::Seal;
use uuid::Uuid;

use super::errors::{TransferError, notice_of_unfinished_cell};
use super::tables::{OpenWriters, TRANSFER_TABLES, Transfer};
use super::transfers;
use crate::kernel::call::Call;
use crate::kernel::catalog::{self, Catalog};
use crate::kernel::error::ClaimsError;
use crate::kernel::limits;
use pg::clock::Moment;
use pg::spi::Connection;
use pg::{wait, xact};

/// How long a call waits for transactions of other sessions that have changed claims or modes.
const WRITERS_TIMEOUT: Duration = Duration::from_millis(500);
/// How often it asks for them.
const EVERY: Duration = Duration::from_millis(10);

/// The reason why a pass over a whole cell cannot be the last one.
pub enum Unsealed {
    /// This transaction has written the transfer or a mode, which other sessions do not see yet.
    Uncommitted,
    /// The pass has begun in an earlier call, which could not seal it, or the seal was broken since.
    Begun,
    /// The mode allows begins.
    Mode(Mode),
    /// Transactions that have changed claims or modes are open.
    OpenWriters(usize),
    /// A lease of the cell is outstanding.
    Leases,
    /// Another transfer brings claims to the cell.
    Arriving(Uuid),
}

/// Returns the mode of a cell, and the seal of it.
fn mode(catalog: &Catalog, cell_id: i64) -> (Mode, Seal) {
    let set = |of: Option<i64>| catalog.modes.iter().find(|setting| setting.cell_id == of);
    let settings = [set(Some(cell_id)), set(None)];
    let strictest = settings.iter().flatten().map(|setting| setting.mode).max().unwrap_or_default();
    let [of_cell, of_all] = settings.map(|setting| setting.map(|setting| setting.since.0));
    (strictest, Seal::new(of_cell, of_all))
}

/// Returns whether the modes are the same as at the beginning of the pass that has marked all claims.
pub fn is_unbroken(connection: &Connection, transfer: &Transfer, seal: &Seal) -> bool {
    *seal == mode(&catalog::current(connection), transfer.from_cell).1
}

/// Refuses a transaction that does not see all claims.
pub fn require_newest_snapshot() -> Result<(), ClaimsError> {
    if xact::uses_transaction_snapshot() { Err(TransferError::OldSnapshot.into()) } else { Ok(()) }
}

/// Seals a pass that is about to begin.
pub fn seal(call: &Call, transfer: &Transfer) -> Result<Result<Seal, Unsealed>, ClaimsError> {
    let cell_id = transfer.from_cell;
    let (mode, seal) = mode(&call.current_catalog(), cell_id);
    if transfer.is_own {
        return Ok(Err(Unsealed::Uncommitted));
    }
    if mode != Mode::SettleOnly {
        return Ok(Err(Unsealed::Mode(mode)));
    }
    if let Err(unsealed) = wait_for_writers(call, cell_id, &seal)? {
        return Ok(Err(unsealed));
    }
    if limits::outstanding(call.connection, cell_id, Moment::MIN, 1) > 0 {
        return Ok(Err(Unsealed::Leases));
    }
    Ok(match transfers::to_cell(call.connection, cell_id) {
        Some(arriving) => Err(Unsealed::Arriving(arriving)),
        None => Ok(seal),
    })
}

/// Waits until all transactions have ended that have changed claims or modes so far.
fn wait_for_writers(call: &Call, cell_id: i64, seal: &Seal) -> Result<Result<(), Unsealed>, ClaimsError> {
    let deadline = Instant::now() + WRITERS_TIMEOUT;
    loop {
        let OpenWriters { transactions, change_modes, own_modes, seals } =
            TRANSFER_TABLES.of(call).open_writers(call.connection, cell_id)?;
        if own_modes {
            return Ok(Err(Unsealed::Uncommitted));
        }
        // Another node that has another mode has not committed it yet.
        let has_old_mode = seals.iter().any(|other| other != seal);
        let left = ended_by(deadline, transactions, || {
            Ok(TRANSFER_TABLES.of(call).open_writers(call.connection, cell_id)?.transactions)
        })?;
        if left > 0 || has_old_mode && Instant::now() >= deadline {
            return Ok(Err(Unsealed::OpenWriters(left.max(1))));
        }
        // While a mode was being changed, other sessions may have begun under the old one.
        if !change_modes && !has_old_mode {
            return Ok(Ok(()));
        }
        wait::sleep(EVERY);
    }
}

/// Waits until all these transactions have ended, at most until the deadline. Returns how many have not.
fn ended_by(
    deadline: Instant,
    mut transactions: BTreeSet<String>,
    open: impl Fn() -> Result<BTreeSet<String>, ClaimsError>,
) -> Result<usize, ClaimsError> {
    while !transactions.is_empty() && Instant::now() < deadline {
        wait::sleep(EVERY);
        let open = open()?;
        transactions.retain(|transaction| open.contains(transaction));
    }
    Ok(transactions.len())
}

/// Returns the seal under which a pass began, if it is unbroken.
pub fn kept_seal(connection: &Connection, transfer: &Transfer) -> Option<Seal> {
    transfer.sealed_by.clone().filter(|seal| is_unbroken(connection, transfer, seal))
}

/// Handles the end of a pass that is not the last one: raises an error if it has done nothing because the cell is open, and tells
/// the client otherwise.
pub fn explain(transfer: &Transfer, unsealed: &Unsealed, marked: i64) -> Result<(), ClaimsError> {
    match unsealed {
        Unsealed::Mode(mode) if marked == 0 => Err(open(transfer, *mode)),
        _ => {
            notice_of_unfinished_cell(transfer.uuid, transfer.from_cell, reason(unsealed));
            Ok(())
        }
    }
}

fn open(transfer: &Transfer, mode: Mode) -> ClaimsError {
    TransferError::CellOpen { transfer: transfer.uuid, cell_id: transfer.from_cell, mode: mode.name() }.into()
}

fn reason(unsealed: &Unsealed) -> String {
    match unsealed {
        Unsealed::Uncommitted => "Other sessions do not see yet what this transaction has done.".to_owned(),
        Unsealed::Begun => {
            "The pass that has ended began while the cell could make claims; the next call begins another pass."
                .to_owned()
        }
        Unsealed::Mode(mode) => format!("The cell's mode is {}, and not settle_only.", mode.name()),
        Unsealed::OpenWriters(1) => "A transaction that may have changed claims is open.".to_owned(),
        Unsealed::OpenWriters(count) => format!("{count} transactions that may have changed claims are open."),
        Unsealed::Leases => "Leases of the cell are outstanding.".to_owned(),
        Unsealed::Arriving(transfer) => format!("Transfer {transfer} brings claims to the cell."),
    }
}

/// Checks before a switch that the cell has made no claims since the transfer was prepared.
pub fn require_seal(connection: &Connection, transfer: &Transfer) -> Result<(), ClaimsError> {
    let (mode, seal) = mode(&catalog::current(connection), transfer.from_cell);
    if mode != Mode::SettleOnly {
        return Err(open(transfer, mode));
    }
    if transfer.sealed_by.as_ref() != Some(&seal) {
        return Err(TransferError::ModeChanged { transfer: transfer.uuid, cell_id: transfer.from_cell }.into());
    }
    Ok(())
}
