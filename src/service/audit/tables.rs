//! Events of the audit log, and how the tables record them.

use claims_model::attribution::Attribution;
use claims_model::history::{name_key, subject_key};
use claims_model::{Bucket, Reference, TypeTable, Types};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::kernel::audit_id::next_id;
use crate::kernel::tables::{Door, Local};
use crate::service::claims::Owner;
use pg::clock::Moment;
use pg::jsonb::JsonText;
use pg::query::arguments;
use pg::session::ClientAddress;
use pg::spi::{Connection, Inet};

/// The session in which an event happened.
pub struct Actor {
    pub session_role: String,
    pub address: Option<ClientAddress>,
    pub application: String,
}

/// A name in a row of the log.
pub struct AuditedName<'n> {
    pub op: &'static str,
    pub bucket: &'n Bucket<'n>,
    /// The owner before the change; `None` if the name had none.
    pub old: Option<Owner<'n>>,
    /// The owner after the change.
    pub new: Option<Owner<'n>>,
}

/// The names of a row, as columns.
#[derive(Clone, Default)]
pub struct NameColumns {
    ops: Vec<&'static str>,
    bucket_types: Vec<String>,
    bucket_values: Vec<String>,
    subjects: Vec<Option<String>>,
    sources: Vec<Option<String>>,
    old_subjects: Vec<Option<String>>,
    old_sources: Vec<Option<String>>,
    search_keys: Vec<i64>,
}

impl NameColumns {
    /// Returns names as columns. Types have their first names, which never change.
    pub fn of(names: &[AuditedName], types: &Types) -> Self {
        let type_of = |name: &AuditedName| types.bucket.first_name(name.bucket.bucket_type).unwrap_or_default();
        let subject = |owner: Option<Owner>| owner.map(|owner| described(&types.subject, owner.subject));
        let source = |owner: Option<Owner>| owner.map(|owner| described(&types.source, owner.source));
        NameColumns {
            ops: names.iter().map(|name| name.op).collect(),
            bucket_types: names.iter().map(|name| type_of(name).to_owned()).collect(),
            bucket_values: names.iter().map(|name| name.bucket.value.to_string()).collect(),
            subjects: names.iter().map(|name| subject(name.new)).collect(),
            sources: names.iter().map(|name| source(name.new)).collect(),
            old_subjects: names.iter().map(|name| subject(name.old)).collect(),
            old_sources: names.iter().map(|name| source(name.old)).collect(),
            search_keys: search_keys(names),
        }
    }
}

impl NameColumns {
    /// Adds keys by which histories and erasures find the row, too.
    pub fn found_by(mut self, keys: impl IntoIterator<Item = i64>) -> Self {
        self.search_keys.extend(keys);
        self
    }

    /// Returns the columns as members of a description.
    pub fn into_json(self) -> Map<String, Value> {
        let members = [
            ("ops", json!(self.ops)),
            ("bucket_types", json!(self.bucket_types)),
            ("bucket_values", json!(self.bucket_values)),
            ("subjects", json!(self.subjects)),
            ("sources", json!(self.sources)),
            ("search_keys", json!(self.search_keys)),
        ];
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// Returns a subject or a source as the log has it: the type's first name and the id.
pub fn described(types: &TypeTable, to: &Reference) -> String {
    format!("{} {}", types.first_name(to.type_id).unwrap_or_default(), to.id)
}

/// Returns the keys of names and of their subjects, each once.
fn search_keys(names: &[AuditedName]) -> Vec<i64> {
    let subject = |owner: Option<Owner>| owner.map(|Owner { subject, .. }| subject_key(subject.type_id, &subject.id));
    let keys = names.iter().flat_map(|AuditedName { bucket, old, new, .. }| {
        [Some(name_key(bucket.bucket_type, &bucket.value)), subject(*old), subject(*new)]
    });
    let mut keys: Vec<i64> = keys.flatten().collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// An event of the audit log.
#[derive(Clone)]
pub struct AuditRow<'r> {
    pub at: Moment,
    pub cell_id: i64,
    pub what: &'static str,
    pub lease: Option<Uuid>,
    pub actor: &'r Actor,
    /// The number of events that have no rows.
    pub lost: Option<usize>,
    pub names: NameColumns,
    pub attribution: Attribution,
    /// The cell that had the names before, if they have gone from one cell to another.
    pub old_cell_id: Option<i64>,
}

arguments! {
    /// The columns of a row of the log, in their order.
    pub struct AuditColumns<'r> {
        pub at: Moment,
        pub id: i64,
        pub cell_id: i64,
        pub what: &'static str,
        pub lease_uuid: Option<Uuid>,
        pub session_role: &'r str,
        pub client_address: Option<Inet>,
        pub application_name: &'r str,
        pub ops: &'r [&'static str],
        pub bucket_types: &'r [String],
        pub bucket_values: &'r [String],
        pub conflict: Option<JsonText>,
        pub subjects: Option<Vec<Option<&'r str>>>,
        pub sources: Option<Vec<Option<&'r str>>>,
        pub old_subjects: Option<Vec<Option<&'r str>>>,
        pub old_sources: Option<Vec<Option<&'r str>>>,
        pub context: Option<&'r str>,
        pub cell_role: Option<&'r str>,
        pub search_keys: &'r [i64],
        pub old_cell_id: Option<i64>,
    }
}

impl AuditRow<'_> {
    /// Returns the columns, with a new id.
    pub fn columns(&self) -> AuditColumns<'_> {
        let NameColumns { ops, bucket_types, bucket_values, search_keys, .. } = &self.names;
        AuditColumns {
            at: self.at,
            id: next_id(),
            cell_id: self.cell_id,
            what: self.what,
            lease_uuid: self.lease,
            session_role: &self.actor.session_role,
            client_address: self.actor.address.as_ref().map(|address| address.inet.clone()),
            application_name: &self.actor.application,
            ops,
            bucket_types,
            bucket_values,
            conflict: self.lost.map(|lost| JsonText(format!("{{\"lost\": {lost}}}"))),
            subjects: unless_empty(&self.names.subjects),
            sources: unless_empty(&self.names.sources),
            old_subjects: unless_empty(&self.names.old_subjects),
            old_sources: unless_empty(&self.names.old_sources),
            context: self.attribution.context.as_deref(),
            cell_role: self.attribution.cell_role.as_deref(),
            search_keys,
            old_cell_id: self.old_cell_id,
        }
    }
}

/// Returns NULL for a column in which no name has a value: most rows are about new claims only.
fn unless_empty(values: &[Option<String>]) -> Option<Vec<Option<&str>>> {
    let has_any = values.iter().any(Option::is_some);
    has_any.then(|| values.iter().map(Option::as_deref).collect())
}

/// The audit log.
pub trait AuditTables: Sync {
    /// Inserts rows of events in this transaction.
    fn record_audit(&self, connection: &Connection, rows: &[AuditRow]);
}

/// Where the log is.
pub static AUDIT_TABLES: Door<dyn AuditTables> = Door::local(&Local);
