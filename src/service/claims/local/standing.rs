//! Finds the claims on buckets, for calls that report them or decide whether to try.

use std::collections::HashMap;

use claims_model::{Bucket, Reference};
use uuid::Uuid;

use super::rows::{key_of, reference};
use crate::kernel::direct::layouts::{CLAIMS, LEASES, claim, lease};
use crate::service::claims::buckets::values_by_type;
use crate::service::claims::rows::{ACTIVE, FoundClaim, HeldFor, KEPT_BACK, kept_back};
use pg::clock::Moment;
use pg::direct::{self, Reading, Row as StoredRow};
use pg::index::KeyValue;
use pg::query::{query, record};
use pg::spi::Connection;

record! {
    /// A claim on a bucket.
    struct StandingRow {
        bucket_value: String,
        subject_type: i32,
        subject_id: String,
        source_type: i32,
        source_id: String,
        cell_id: i64,
        is_active: bool,
        held_since: Option<Moment>,
        other_cell_id: Option<i64>,
        given_up_by: Option<i64>,
        available_at: Option<Moment>,
        reclaiming_cell: Option<i64>,
    }
}

query! {
    /// Returns the claims on buckets. It takes no locks: a claim that is only reported must not be locked. A claim that a transfer holds is
    /// at the cell in the transfer's row.
    fn standing_on(bucket_type: i32, bucket_values: &[&str]) -> Vec<StandingRow> = [Latest]
        "SELECT c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id,
                CASE WHEN c.status = 4
                     THEN coalesce((SELECT t.cell_id FROM claims.cell_transfers t WHERE t.transfer_uuid = c.lease_uuid), c.creator_id)
                     ELSE c.creator_id END AS cell_id,
                c.status = 1 AS is_active,
                CASE WHEN c.status = 4 THEN (SELECT t.created_at FROM claims.cell_transfers t WHERE t.transfer_uuid = c.lease_uuid)
                     ELSE (SELECT l.created_at FROM claims.claim_leases l WHERE l.uuid = c.lease_uuid) END AS held_since,
                CASE WHEN c.status = 4
                     THEN (SELECT CASE t.cell_id WHEN t.from_cell THEN t.to_cell ELSE t.from_cell END
                             FROM claims.cell_transfers t WHERE t.transfer_uuid = c.lease_uuid) END AS other_cell_id,
                c.given_up_by, c.available_at,
                CASE WHEN c.status = 6
                     THEN coalesce((SELECT l.creator_id FROM claims.claim_leases l WHERE l.uuid = c.lease_uuid), -1) END AS reclaiming_cell
           FROM claims.claims c
          WHERE c.bucket_value = ANY (:bucket_values) AND c.bucket_type = :bucket_type";
}

/// Returns the claims that are committed on buckets now. Takes no locks: a claim that is only reported must not be locked.
pub(super) fn on(connection: &Connection, buckets: &[&Bucket]) -> HashMap<Bucket<'static>, FoundClaim> {
    let (mut found, others) = directly(buckets).unwrap_or_else(|| (HashMap::new(), buckets.to_vec()));
    if !others.is_empty() {
        found.extend(by_statement(connection, &others));
    }
    found
}

/// Looks claims up without a statement, which would take longer than the rest of a begin that conflicts. Returns them, and the buckets for which
/// a statement is needed because other tables have a part of the answer. `None`: the table is not as the extension has created it.
fn directly<'b>(buckets: &[&'b Bucket<'b>]) -> Option<(HashMap<Bucket<'static>, FoundClaim>, Vec<&'b Bucket<'b>>)> {
    direct::read([&CLAIMS], |[claims]| {
        claims.look_up(Reading::Latest, |rows| {
            let (mut found, mut others) = (HashMap::with_capacity(buckets.len()), Vec::new());
            for bucket in buckets {
                let Some(row) = rows.find(key_of(bucket), |_| true) else { continue };
                match read(&row) {
                    Some(claim) => {
                        let value = bucket.value.to_string().into();
                        found.insert(Bucket { bucket_type: bucket.bucket_type, value }, claim);
                    }
                    None => others.push(*bucket),
                }
            }
            (found, others)
        })
    })
}

/// Returns the claim of a row. `None` if a transfer holds it, or a lease that reclaims its name.
fn read(row: &StoredRow) -> Option<FoundClaim> {
    let status: i16 = row.must(claim::STATUS);
    let is_held = status == HeldFor::Creating as i16 || status == HeldFor::Destroying as i16;
    if !(is_held || status == ACTIVE || status == KEPT_BACK) {
        return None;
    }
    let holder = row.get::<Uuid>(claim::LEASE_UUID).filter(|_| is_held);
    Some(FoundClaim {
        holder_cell_id: row.must(claim::CREATOR_ID),
        active: status == ACTIVE,
        subject: reference(row, claim::SUBJECT_TYPE, claim::SUBJECT_ID)?,
        source: reference(row, claim::SOURCE_TYPE, claim::SOURCE_ID)?,
        lease_made_at: match holder {
            Some(uuid) => made_at(uuid)?,
            None => None,
        },
        other_cell_id: None,
        kept: kept_back(row.get(claim::GIVEN_UP_BY), row.get(claim::AVAILABLE_AT), None),
    })
}

/// Returns when a lease was made, in the snapshot in which its claim was found, so that the lease is there. `None`: the table is not as the extension
/// has created it.
fn made_at(lease: Uuid) -> Option<Option<Moment>> {
    direct::read([&LEASES], |[leases]| {
        leases.look_up(Reading::Caller, |rows| {
            rows.find([KeyValue::Uuid(lease)], |_| true).map(|row| row.must(lease::CREATED_AT))
        })
    })
}

/// Finds claims whatever the tables are like.
fn by_statement(connection: &Connection, buckets: &[&Bucket]) -> Vec<(Bucket<'static>, FoundClaim)> {
    let found = |bucket_type, row: StandingRow| {
        let found = FoundClaim {
            holder_cell_id: row.cell_id,
            active: row.is_active,
            subject: Reference { type_id: row.subject_type, id: row.subject_id.into() },
            source: Reference { type_id: row.source_type, id: row.source_id.into() },
            lease_made_at: row.held_since,
            other_cell_id: row.other_cell_id,
            kept: kept_back(row.given_up_by, row.available_at, row.reclaiming_cell),
        };
        (Bucket { bucket_type, value: row.bucket_value.into() }, found)
    };
    let of_type = |(bucket_type, values): (i32, Vec<&str>)| {
        standing_on(connection, bucket_type, &values).into_iter().map(move |row| found(bucket_type, row))
    };
    values_by_type(buckets.iter().copied()).into_iter().flat_map(of_type).collect()
}
