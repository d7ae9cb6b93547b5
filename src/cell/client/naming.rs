//! The profiles of this database, which the service checks against its own. They are sent with every call that depends on them,
//! because either side can change its profiles at any time.

use std::collections::BTreeSet;

use claims_model::{Types, UNICODE_VERSION};

use pgrx::pg_sys::{self, Oid};

use super::question::{Parameter, Values};

/// Bucket types, each with its profile.
pub struct RequiredNaming {
    bucket_types: Vec<String>,
    profiles: Vec<&'static str>,
}

impl RequiredNaming {
    /// Returns the profiles of bucket types, each type once.
    pub fn of<'t>(types: &Types, bucket_types: impl Iterator<Item = &'t str>) -> Self {
        let names: BTreeSet<&str> = bucket_types.collect();
        RequiredNaming {
            profiles: names.iter().map(|name| types.profile_of(name).name()).collect(),
            bucket_types: names.into_iter().map(str::to_owned).collect(),
        }
    }
}

/// The arguments of claims.require_naming().
impl Parameter for RequiredNaming {
    const TYPES: &'static [Oid] = &[pg_sys::TEXTOID, pg_sys::TEXTARRAYOID, pg_sys::TEXTARRAYOID];

    fn add_to(&self, values: &mut Values) {
        UNICODE_VERSION.add_to(values);
        self.bucket_types.add_to(values);
        self.profiles.add_to(values);
    }
}
