//! Names of a bucket type: their new forms when its profile changes, and reserved names. A reserved name has a row with the
//! reason, and a claim without owner that keeps all cells from claiming it.

use claims_model::{Bucket, Claim, Reference};

use crate::kernel::tables::{Door, Local};
use crate::service::claims::OwnedName;
use pg::clock::Moment;
use pg::spi::Connection;

pub struct StoredName {
    pub value: String,
    pub display: Option<String>,
    pub cell_id: i64,
    pub is_leased: bool,
}

impl StoredName {
    /// Returns its original spelling.
    pub fn displayed(&self) -> &str {
        self.display.as_deref().unwrap_or(&self.value)
    }
}

/// A name with its new canonical form, and its original spelling if that differs.
pub struct Renaming {
    pub old: String,
    pub new: String,
    pub display: Option<String>,
}

/// Number of rows that one statement writes.
pub const PORTION: usize = 10_000;

/// A name that was renamed, and the cell that owns it.
pub struct Renamed {
    pub cell_id: i64,
    pub old: Bucket<'static>,
    pub new: Bucket<'static>,
}

/// A name to reserve, and its original spelling if that is not canonical.
pub struct Reserved {
    pub bucket: Bucket<'static>,
    pub display: Option<String>,
}

impl Reserved {
    /// Returns the claim without owner that keeps all cells from claiming the name.
    pub fn claim(&self) -> Claim<'_> {
        let nothing = || Reference { type_id: 0, id: "0".into() };
        Claim {
            bucket: Bucket { bucket_type: self.bucket.bucket_type, value: (&*self.bucket.value).into() },
            subject: nothing(),
            source: nothing(),
            display: self.display.as_deref().map(Into::into),
        }
    }
}

/// The reason for a reservation, and the role that makes it.
pub struct ReservedBy<'g> {
    pub reason: &'g str,
    pub role: &'g str,
}

/// Names that a new profile changes, and reserved names.
pub trait NameTables: Sync {
    /// Locks out transactions that write names whose profile can change, until this transaction ends. `bucket_type` is the type
    /// to change.
    fn lock_names(&self, connection: &Connection, bucket_type: i32);

    /// Passes all names of a type to `each`, as committed now, in no order.
    fn each_name(&self, connection: &Connection, bucket_type: i32, now: Moment, each: &mut dyn FnMut(StoredName));

    /// Renames claims and reserved names. With `tells`, records the changes in the change feed if the same statement can. Returns
    /// the changes that the caller must still record.
    fn rename(&self, connection: &Connection, bucket_type: i32, renamings: &[Renaming], tells: bool) -> Vec<Renamed>;

    /// Deletes at most `limit` names whose time to be kept back is over, and returns them. Skips those that another transaction has locked.
    fn purge_over(&self, connection: &Connection, now: Moment, limit: i64) -> Vec<Bucket<'static>>;

    /// Reserves names of one type. A claimed name is a unique violation.
    fn reserve(&self, connection: &Connection, bucket_type: i32, names: &[&Reserved], reserved_by: &ReservedBy);
}

/// Where the names are.
pub static NAME_TABLES: Door<dyn NameTables> = Door::local(&Local);

/// Claims of a cell that is gone.
pub trait ReleaseTables: Sync {
    /// Ends up to `limit` claims of a cell that no lease holds, and returns them. The names of the types in `ends` are kept back until then.
    /// Does not wait for other transactions.
    fn release(&self, connection: &Connection, cell_id: i64, limit: i64, ends: &[(i32, Moment)]) -> Vec<OwnedName>;

    /// Like [`release`](Self::release) where no name is kept back, and returns only the number of claims. With `tells`, the same statement records them in the
    /// change feed as freed. Returns `None` if these tables have no such statement.
    fn release_in_bulk(&self, _: &Connection, _cell_id: i64, _limit: i64, _tells: bool) -> Option<i64> {
        None
    }
}

/// Where the claims of a cell that is gone are.
pub static RELEASE_TABLES: Door<dyn ReleaseTables> = Door::local(&Local);
