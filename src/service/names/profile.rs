//! `set_profile`: changes the profile of a bucket type that already has names.
//!
//! It runs in one transaction, and keeps out every begin. It waits for leases on names that will change, and then rewrites all names
//! in place. All sessions see the old names until COMMIT, and the new ones afterwards.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use claims_model::lookalike::Skeleton;
use claims_model::renaming::{ChangedType, Collision, Collisions, LookAlikes, Survey};
use claims_model::types::Kind;
use claims_model::{BadInput, Bucket, NOBODY, Naming, Types, id};

use super::errors::{NamesError, notice_of_look_alikes};
use super::statements;
use super::tables::{NAME_TABLES, PORTION, Renamed, Renaming};
use crate::kernel::admin_action::AdminAction;
use crate::kernel::call::Call;
use crate::kernel::error::{ClaimsError, TablesError};
use crate::kernel::{arguments, attribution, settings};
use crate::service::admin::ROLE_TABLES;
use crate::service::claims::{Bearing, SKELETON_TABLES, kept};
use crate::service::feed::{self, Change, ChangeSet};
use crate::service::transfer::errors::TransferError;
use crate::service::transfer::transfers;
use pg::clock::Moment;
use pg::prelude::*;
use pg::{wait, xact};

/// Interval between checks for unsettled leases.
const EVERY: Duration = Duration::from_millis(50);

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
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
    let action = AdminAction::begin("set_profile", reason)?;
    let bucket_type = arguments::required(bucket_type, "bucket_type")?;
    let profile = arguments::profile(profile)?;
    let confusables = confusables.map(|name| arguments::confusables(Some(name))).transpose()?;
    let dry_run = arguments::required(dry_run, "dry_run")?;
    // Takes the old naming from the current catalog, and builds a type with the new profile.
    let change = |call: &Call| {
        let catalog = call.current_catalog();
        let number = id::type_from_text(&bucket_type, Kind::Bucket, &catalog.types)
            .map_err(|problem| BadInput::new("bucket_type", problem))?;
        let old = catalog.types.naming(number);
        let new = Naming { profile, confusables: confusables.unwrap_or(old.confusables) };
        Ok::<_, ClaimsError>(ProfileChange {
            number,
            old,
            new,
            types: Types { naming: [(number, new)].into(), ..Types::default() },
        })
    };
    if dry_run {
        return Call::run(|call| change(call)?.collisions(call));
    }
    let named = [("bucket_type", bucket_type.as_str()), ("profile", profile.name())];
    let action = named.into_iter().fold(action, |action, (name, value)| action.with(name, value));
    action.with("confusables", confusables.map(|choice| choice.name())).perform_counted(|call| {
        if xact::uses_transaction_snapshot() {
            return Err(NamesError::OldSnapshot.into());
        }
        call.bounded(|| {
            ROLE_TABLES.of(call).lock_types(call.connection)?;
            NAME_TABLES.of(call).lock_names(call.connection, change(call)?.number);
            // Read again under the lock, where no other session changes the type.
            let renamed = change(call)?.perform(call)?;
            Ok((Vec::new(), vec![("renamed", renamed)]))
        })
    })
}

struct ProfileChange {
    number: i32,
    old: Naming,
    new: Naming,
    /// The type with its new profile.
    types: Types,
}

/// Writes the renamed names to the change feed: the old names as freed, the new ones as taken, and as replaced those of which
/// only the displayed spelling differs.
fn tell(call: &Call, renamed: &[Renamed]) {
    let mut by_cell: BTreeMap<i64, Vec<&Renamed>> = BTreeMap::new();
    for one in renamed {
        by_cell.entry(one.cell_id).or_default().push(one);
    }
    // The kind of change, whether it is for names whose canonical form differs, and which of the two names it is about.
    type Kind = (fn(i64) -> Change, bool, fn(&Renamed) -> &Bucket<'static>);
    let kinds: [Kind; 3] = [
        (Change::Destroy, true, |one| &one.old),
        (Change::Create, true, |one| &one.new),
        (Change::Replace, false, |one| &one.new),
    ];
    let mut sets = Vec::new();
    for (change, is_other_name, bucket) in kinds {
        for (cell_id, all) in &by_cell {
            let meant = all.iter().filter(|one| (one.old != one.new) == is_other_name);
            sets.push(ChangeSet {
                change: change(*cell_id),
                cause: None,
                buckets: meant.map(|one| bucket(one)).collect(),
                attribution: attribution::of_session(),
            });
        }
    }
    feed::tell(call, &sets, Moment::now());
}

/// The effects of a change on the existing names.
struct Plan {
    /// The names whose time to be kept back is over by then are not in it.
    at: Moment,
    survey: Survey,
    renamings: Vec<Renaming>,
    claimed: Vec<(Skeleton, Bucket<'static>)>,
    reserved: Vec<(Skeleton, Bucket<'static>)>,
    /// Number of names that outstanding leases hold. They cannot be changed before those leases are settled.
    held: usize,
}

impl Plan {
    fn new(at: Moment) -> Self {
        let (renamings, claimed, reserved) = Default::default();
        Plan { at, survey: Survey::default(), renamings, claimed, reserved, held: 0 }
    }
}

impl ProfileChange {
    fn changed(&self) -> ChangedType<'_> {
        ChangedType { bucket_type: self.number, types: &self.types }
    }

    fn plan(&self, call: &Call) -> Plan {
        let mut plan = Plan::new(Moment::now());
        NAME_TABLES.of(call).each_name(call.connection, self.number, plan.at, &mut |name| {
            let becomes = plan.survey.add(self.changed(), name.displayed(), name.cell_id);
            let Some((new, skeleton)) = becomes else { return };
            plan.held += usize::from(name.is_leased && (new != name.value || skeleton.is_some()));
            if let Some(skeleton) = skeleton {
                let skeletons = if name.cell_id == NOBODY { &mut plan.reserved } else { &mut plan.claimed };
                skeletons.push((skeleton, Bucket { bucket_type: self.number, value: new.clone().into() }));
            }
            let display = Some(name.displayed()).filter(|displayed| **displayed != *new).map(str::to_owned);
            if new != name.value || display != name.display {
                plan.renamings.push(Renaming { old: name.value, new, display });
            }
        });
        plan
    }

    fn collisions(&self, call: &Call) -> Result<Vec<Collision>, ClaimsError> {
        if self.old == self.new {
            return Ok(Vec::new());
        }
        let survey = self.plan(call).survey;
        self.notice(call, &survey);
        Ok(self.list_collisions(call, &survey))
    }

    fn list_collisions(&self, call: &Call, survey: &Survey) -> Vec<Collision> {
        if survey.is_clean() {
            return Vec::new();
        }
        let mut found = Collisions::default();
        NAME_TABLES.of(call).each_name(call.connection, self.number, Moment::now(), &mut |name| {
            found.add(self.changed(), survey, (&name.value, name.displayed()), name.cell_id);
        });
        found.list()
    }

    /// Raises a NOTICE for claims that are confusable with reserved names. Both stay.
    fn notice(&self, call: &Call, survey: &Survey) {
        if !survey.is_clean() || !survey.has_claims_beside_reserved() {
            return;
        }
        let mut alike = LookAlikes::default();
        NAME_TABLES.of(call).each_name(call.connection, self.number, Moment::now(), &mut |name| {
            alike.add(self.changed(), survey, name.displayed(), name.cell_id);
        });
        notice_of_look_alikes(&alike.list());
    }

    fn rename(&self, call: &Call, renamings: &[Renaming]) {
        let renamed = NAME_TABLES.of(call).rename(call.connection, self.number, renamings, feed::is_on());
        if !renamed.is_empty() {
            return tell(call, &renamed);
        }
        if feed::is_on() && !renamings.is_empty() {
            feed::notify_readers(call.connection);
        }
    }

    /// Replaces the skeletons of the type by those of the plan.
    fn replace_skeletons(&self, call: &Call, plan: &Plan) {
        statements::forget_skeletons(call.connection, self.number);
        for (wanted, bearing) in [(&plan.claimed, Bearing::Claimed), (&plan.reserved, Bearing::Reserved)] {
            for portion in wanted.chunks(PORTION) {
                let portion: Vec<_> = portion.iter().map(|(skeleton, bucket)| (*skeleton, bucket)).collect();
                SKELETON_TABLES.of(call).put_skeletons(call.connection, &portion, bearing);
            }
        }
    }

    /// Changes the profile. Returns how many names were renamed.
    fn perform(&self, call: &Call) -> Result<i64, ClaimsError> {
        if self.old == self.new {
            return Ok(0);
        }
        // A transfer of a whole cell would miss claims whose names change while it reads them.
        if !transfers::writes_announced() {
            return Err(TablesError::Locked.into());
        }
        if let Some((transfer, cell_id)) = transfers::of_any_whole_cell(call.connection) {
            return Err(TransferError::CellMoves { transfer, cell_id }.into());
        }
        let deadline = Instant::now() + settings::wait_timeout();
        let plan = loop {
            let plan = self.plan(call);
            if !plan.survey.is_clean() {
                let collisions = self.list_collisions(call, &plan.survey);
                return Err(NamesError::Collisions { collisions }.into());
            }
            match plan.held {
                0 => break plan,
                _ if Instant::now() < deadline => wait::sleep(EVERY),
                held => return Err(NamesError::HeldByLeases { held }.into()),
            }
        };
        self.notice(call, &plan.survey);
        // They are free, and another name may become theirs.
        kept::drop_over(call.connection, self.number, plan.at);
        self.rename(call, &plan.renamings);
        self.replace_skeletons(call, &plan);
        statements::set_profile(call.connection, self.number, self.new);
        Ok(plan.renamings.len() as i64)
    }
}
