//! `set_profile`: another answer to what counts as the same name, for a type that has names already.
//!
//! In one transaction: whoever begins under a type whose profile can change is kept out (types that come with the extension go
//! on), leases that hold names which change are waited for, and then all names are rewritten in place. Readers and every
//! other cell see the old names until COMMIT, and the new ones from then on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use claims_model::limits::FIRST_FREE_TYPE;
use claims_model::lookalike::Look;
use claims_model::renaming::{Collision, Collisions, Survey};
use claims_model::types::Kind;
use claims_model::{BadInput, Bucket, Naming, Types, id};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use super::names;
use crate::access;
use crate::acts::Act;
use crate::distribution;
use crate::error::{ClaimsError, NamesError};
use crate::pg::clock::Moment;
use crate::pg::spi::Connection;
use crate::pg::{wait, xact};
use crate::service::{engine, feed};
use crate::settings;
use crate::store::catalog;
use crate::store::service::admin::lock_types;
use crate::store::service::changes::{Change as Told, ChangeSet};
use crate::store::service::distributed::profiles::{self as distributed_profiles, Renamed};
use crate::store::service::profiles::{self, Renaming};

/// How often to look whether leases are settled.
const EVERY: Duration = Duration::from_millis(50);

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
fn set_profile(
    bucket_type: Option<String>,
    profile: Option<String>,
    reason: Option<String>,
    confusables: default!(Option<String>, "NULL"),
    dry_run: default!(Option<bool>, true),
) -> Result<
    TableIterator<
        'static,
        (name!(canonical, Option<String>), name!(bucket_values, Vec<String>), name!(cell_ids, Vec<i64>)),
    >,
    ErrorReport,
> {
    let rows = set(bucket_type, profile, reason, confusables, dry_run)?.into_iter().map(|collision| {
        let (values, cells) = collision.names.into_iter().unzip();
        (collision.canonical, values, cells)
    });
    Ok(TableIterator::new(rows))
}

fn set(
    bucket_type: Option<String>,
    profile: Option<String>,
    reason: Option<String>,
    confusables: Option<String>,
    dry_run: Option<bool>,
) -> Result<Vec<Collision>, ClaimsError> {
    let act = Act::begin("set_profile", reason)?;
    let bucket_type = access::given(bucket_type, "bucket_type")?;
    let profile = names::profile(profile)?;
    let confusables = confusables.map(|name| names::confusables(Some(name))).transpose()?;
    let dry_run = access::given(dry_run, "dry_run")?;
    // By the types that are in force; and by the new profile.
    let change = |connection: &Connection| {
        let catalog = catalog::current(connection);
        let number = id::type_from_text(&bucket_type, Kind::Bucket, &catalog.types)
            .map_err(|problem| BadInput::new("bucket_type", problem))?;
        let old = catalog.types.naming(number);
        let new = Naming { profile, confusables: confusables.unwrap_or(old.confusables) };
        if number < FIRST_FREE_TYPE && new != old {
            return Err(ClaimsError::from(NamesError::ProfileFixed { bucket_type: bucket_type.clone() }));
        }
        Ok(Change { number, old, new, types: Types { naming: [(number, new)].into(), ..Types::default() } })
    };
    if dry_run {
        return crate::pg::spi::connect(|connection| change(connection)?.collisions(connection));
    }
    let named = [("bucket_type", bucket_type.as_str()), ("profile", profile.name())];
    let act = named.into_iter().fold(act, |act, (name, value)| act.with(name, value));
    act.with("confusables", confusables.map(|choice| choice.name())).perform_counted(|connection| {
        if xact::keeps_one_snapshot() {
            return Err(NamesError::OldSnapshot.into());
        }
        engine::bounded(connection, || {
            lock_types(connection);
            profiles::lock(connection, change(connection)?.number);
            // Only now: nobody else changes it any more.
            let renamed = change(connection)?.perform(connection)?;
            Ok((Vec::new(), vec![("renamed", renamed)]))
        })
    })
}

/// What is to be changed.
struct Change {
    number: i32,
    old: Naming,
    new: Naming,
    /// The type by its new profile.
    types: Types,
}

/// What is told of names that are other ones now: which are free, which are taken, and of which only the form differs in which they were
/// given.
fn tell(connection: &Connection, renamed: &[Renamed]) {
    let mut by_cell: BTreeMap<i64, Vec<&Renamed>> = BTreeMap::new();
    for one in renamed {
        by_cell.entry(one.cell_id).or_default().push(one);
    }
    // What is told, of names that are other ones or not, and of which of the two.
    type Kind = (fn(i64) -> Told, bool, fn(&Renamed) -> &Bucket<'static>);
    let kinds: [Kind; 3] = [
        (Told::Destroy, true, |one| &one.old),
        (Told::Create, true, |one| &one.new),
        (Told::Replace, false, |one| &one.new),
    ];
    let mut sets = Vec::new();
    for (told, is_other_name, bucket) in kinds {
        for (cell_id, all) in &by_cell {
            let meant = all.iter().filter(|one| (one.old != one.new) == is_other_name);
            sets.push(ChangeSet {
                change: told(*cell_id),
                cause: None,
                buckets: meant.map(|one| bucket(one)).collect(),
            });
        }
    }
    feed::tell(connection, &sets, Moment::now());
}

/// What becomes of the names that are there.
#[derive(Default)]
struct Plan {
    survey: Survey,
    renamings: Vec<Renaming>,
    looks: Vec<(Look, Bucket<'static>)>,
    /// Names that outstanding leases hold, and that cannot be touched before those are settled.
    held: usize,
}

impl Change {
    fn plan(&self, connection: &Connection) -> Plan {
        let mut plan = Plan::default();
        profiles::each_name(connection, self.number, |name| {
            let becomes = plan.survey.add(name.given(), name.cell_id, self.number, &self.types);
            let Some((new, look)) = becomes else { return };
            plan.held += usize::from(name.is_leased && (new != name.value || look.is_some()));
            if let Some(look) = look {
                plan.looks.push((look, Bucket { bucket_type: self.number, value: new.clone().into() }));
            }
            let display = Some(name.given()).filter(|given| **given != *new).map(str::to_owned);
            if new != name.value || display != name.display {
                plan.renamings.push(Renaming { old: name.value, new, display });
            }
        });
        plan
    }

    fn collisions(&self, connection: &Connection) -> Result<Vec<Collision>, ClaimsError> {
        if self.old == self.new {
            return Ok(Vec::new());
        }
        Ok(self.tell(connection, &self.plan(connection).survey))
    }

    fn tell(&self, connection: &Connection, survey: &Survey) -> Vec<Collision> {
        if survey.is_clean() {
            return Vec::new();
        }
        let mut found = Collisions::default();
        profiles::each_name(connection, self.number, |name| {
            found.add(survey, (&name.value, name.given()), name.cell_id, self.number, &self.types);
        });
        found.list()
    }

    fn rename(&self, connection: &Connection, renamings: &[Renaming]) {
        if distribution::is_spread() {
            let renamed = distributed_profiles::rename(connection, self.number, renamings);
            return tell(connection, &renamed);
        }
        profiles::rename(connection, self.number, renamings, feed::is_on());
        if feed::is_on() && !renamings.is_empty() {
            feed::told(connection);
        }
    }

    /// Returns how many names are other ones now.
    fn perform(&self, connection: &Connection) -> Result<i64, ClaimsError> {
        if self.old == self.new {
            return Ok(0);
        }
        let deadline = Instant::now() + Duration::from_millis(settings::wait_timeout().unsigned_abs());
        let plan = loop {
            let plan = self.plan(connection);
            if !plan.survey.is_clean() {
                let collisions = self.tell(connection, &plan.survey);
                return Err(NamesError::Collisions { collisions }.into());
            }
            match plan.held {
                0 => break plan,
                _ if Instant::now() < deadline => wait::sleep(EVERY),
                held => return Err(NamesError::HeldByLeases { held }.into()),
            }
        };
        self.rename(connection, &plan.renamings);
        profiles::replace_looks(connection, self.number, &plan.looks);
        profiles::set(connection, self.number, self.new);
        Ok(plan.renamings.len() as i64)
    }
}
