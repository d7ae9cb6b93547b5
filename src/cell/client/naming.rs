//! How this database compares names, for the service to say whether it does the same. It goes with every call that depends on
//! it: what cell and service take for the same name can be changed on either side at any time.

use std::collections::BTreeSet;

use claims_model::{Types, UNICODE_VERSION};

use super::parameters::{Parameter, text, texts};

/// Bucket types, each with its profile.
pub struct RequiredNaming {
    bucket_types: Vec<String>,
    profiles: Vec<&'static str>,
}

impl RequiredNaming {
    /// Of bucket types by name, each once.
    pub fn of<'t>(types: &Types, bucket_types: impl Iterator<Item = &'t str>) -> Self {
        let names: BTreeSet<&str> = bucket_types.collect();
        RequiredNaming {
            profiles: names.iter().map(|name| types.profile_of(name).name()).collect(),
            bucket_types: names.into_iter().map(str::to_owned).collect(),
        }
    }

    /// As claims.require_naming() takes it.
    pub(super) fn values(&self) -> [Parameter; 3] {
        [text(UNICODE_VERSION), texts(&self.bucket_types), texts(&self.profiles)]
    }
}
