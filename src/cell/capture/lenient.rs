//! A batch on its way to the service, and the answers that no save need fail for.
//!
//! A row may give up a name that was never claimed for it: it is older than the claims, or another row or another cell has
//! the name. That destroy is left out. And a row may get a name that its own cell has claimed for no row: it adopts the claim.
//! The service is asked first and says all of it at once; only then, and only for what it said, it is asked again. In
//! between somebody else may change what it said. Then the second answer decides: a claim is never destroyed that its row does
//! not have, and at worst one is left that no row calls for, until verification finds it or a row adopts it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use claims_model::capture::{Create, Pending};
use claims_model::outgoing::{Concessions, Outgoing, refusals};
use uuid::Uuid;

use super::adopt;
use crate::cell::client::Service;
use crate::cell::client::leases::BeginRequest;
use crate::cell::client::naming::RequiredNaming;
use crate::error::{CaptureError, CellError, ClaimsError};
use crate::pg::spi::Connection;
use crate::pg::xact;
use crate::store::catalog;

/// What a transaction sends, under one lease.
pub struct LenientBatch {
    pub cell_id: i64,
    pub lease: Uuid,
    outgoing: Outgoing,
}

impl LenientBatch {
    pub fn new(cell_id: i64, pending: Pending) -> Self {
        LenientBatch { cell_id, lease: Uuid::now_v7(), outgoing: Outgoing::new(pending) }
    }

    /// All of it was left out: there is no lease.
    pub fn is_empty(&self) -> bool {
        self.outgoing.is_empty()
    }

    pub fn concessions(&self) -> Concessions {
        self.outgoing.concessions()
    }

    /// Begins the lease, without what cannot be given up. What else is in the way is an error.
    pub fn begin(&mut self, connection: &Connection, service: &Service, timeout: Duration) -> Result<(), ClaimsError> {
        let (started, mut left) = (Instant::now(), timeout);
        while !self.is_empty() {
            let (creates, destroys) = self.outgoing.json()?;
            let LenientBatch { cell_id, lease, .. } = *self;
            let naming = RequiredNaming::of(&catalog::current(connection).types, self.outgoing.bucket_types());
            let request = BeginRequest { cell_id, lease, creates, destroys, cell_xid: xact::own_xid(), naming };
            match service.begin(&request, left) {
                Ok(()) => return Ok(()),
                Err(error) if !self.gives_way(connection, &error) => return Err(error),
                Err(_) => left = timeout.saturating_sub(started.elapsed()),
            }
        }
        Ok(())
    }

    /// Whether something of the batch could be left out or adopted for an error.
    fn gives_way(&mut self, connection: &Connection, error: &ClaimsError) -> bool {
        let ClaimsError::Cell(CellError::Refused(refused)) = error else { return false };
        let Some(refusals) = refused.detail.as_deref().and_then(refusals) else { return false };
        let free = match self.outgoing.adoptable(&refusals, self.cell_id) {
            creates if creates.is_empty() => BTreeSet::new(),
            creates => adopt::free(connection, &creates),
        };
        self.outgoing.give_way(&refusals, self.cell_id, &free)
    }

    /// Raises where another row of the cell has got an adopted name in the meantime. For when the lease is there, which
    /// keeps others from it now.
    pub fn confirm(&self, connection: &Connection) -> Result<(), ClaimsError> {
        let adopted: Vec<&Create> = self.outgoing.adopted().collect();
        if adopted.is_empty() {
            return Ok(());
        }
        let free = adopt::free(connection, &adopted);
        match adopted.into_iter().find(|create| !free.contains(&create.bucket)) {
            None => Ok(()),
            Some(Create { bucket, .. }) => {
                let (bucket_type, value) = (bucket.bucket_type.to_string(), bucket.value.clone());
                Err(CaptureError::ClaimedTwice { bucket_type, value }.into())
            }
        }
    }
}
