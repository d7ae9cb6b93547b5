//! The type tables: names for people, numbers for rows.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use claims_names::{Confusables, NameProblem, Profile};
use strum::{EnumString, IntoStaticStr};

/// A kind of types, each with a table of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum Kind {
    Bucket,
    Subject,
    Source,
}

impl Kind {
    pub fn named(name: &str) -> Option<Self> {
        name.parse().ok()
    }

    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The type number that no claim may have.
pub const UNSPECIFIED: i32 = 0;

/// One type table. A type has one shown name and any number of other accepted names. The name that it had first stays
/// accepted for ever. Everything that must not change with the shown name uses the first name.
#[derive(Debug, Default, Clone)]
pub struct TypeTable {
    ids: HashMap<Arc<str>, i32>,
    shown: BTreeMap<i32, Arc<str>>,
    first: BTreeMap<i32, Arc<str>>,
}

impl TypeTable {
    /// Builds a table of the shown names.
    pub fn new(rows: impl IntoIterator<Item = (i32, String)>) -> Self {
        let mut table = TypeTable::default();
        for (id, name) in rows {
            let name: Arc<str> = name.into();
            table.ids.insert(name.clone(), id);
            table.shown.insert(id, name);
        }
        table
    }

    /// Adds all other names, and whether each was the type's first one.
    pub fn with_names(mut self, names: impl IntoIterator<Item = (i32, String, bool)>) -> Self {
        for (id, name, is_first) in names {
            // Somebody deleted the type by hand.
            if !self.shown.contains_key(&id) {
                continue;
            }
            let name: Arc<str> = name.into();
            if is_first {
                self.first.insert(id, name.clone());
            }
            // A shown name belongs to its own type, also if somebody wrote it into the tables for another one.
            self.ids.entry(name).or_insert(id);
        }
        self
    }

    /// Returns the number of any name of a type. Names are compared byte by byte.
    pub fn id(&self, name: &str) -> Option<i32> {
        self.ids.get(name).copied()
    }

    /// Returns the shown name of a number.
    pub fn name(&self, id: i32) -> Option<&str> {
        self.shown.get(&id).map(|name| &**name)
    }

    /// Returns the name that a number had first.
    pub fn first_name(&self, id: i32) -> Option<&str> {
        self.first.get(&id).or_else(|| self.shown.get(&id)).map(|name| &**name)
    }

    /// Returns the numbers, each with the name that it had first.
    pub fn first_names(&self) -> impl Iterator<Item = (i32, &str)> {
        self.shown.keys().filter_map(|id| Some((*id, self.first_name(*id)?)))
    }

    /// Returns the name that a type had first, by any of its names.
    pub fn first_name_of(&self, name: &str) -> Option<&str> {
        self.first_name(self.id(name)?)
    }

    fn is_renamed(&self) -> bool {
        self.shown.iter().any(|(id, name)| self.first.get(id).is_some_and(|first| first != name))
    }

    fn by_first_names(&self) -> TypeTable {
        let shown = self.shown.keys().filter_map(|id| Some((*id, self.first_name(*id)?.into()))).collect();
        TypeTable { shown, ..self.clone() }
    }
}

/// The rules by which the names of a bucket type are compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Naming {
    pub profile: Profile,
    pub confusables: Confusables,
}

impl Naming {
    /// Returns the canonical form for a look-up. No claim has a name that is too long, so such a name is its own form.
    pub fn canonical_for_lookup<'n>(&self, name: &'n str) -> Result<Cow<'n, str>, NameProblem> {
        match self.profile {
            Profile::Exact => Ok(Cow::Borrowed(name)),
            _ if name.is_empty() => Ok(Cow::Borrowed(name)),
            profile => match profile.canonical(name) {
                Err(problem) if problem.is_length() => Ok(Cow::Borrowed(name)),
                canonical => canonical,
            },
        }
    }
}

#[derive(Debug, Default, Clone)]
pub struct Types {
    pub bucket: TypeTable,
    pub subject: TypeTable,
    pub source: TypeTable,
    /// The naming of those bucket types whose names are not just compared byte by byte.
    pub naming: HashMap<i32, Naming>,
}

impl Types {
    /// Returns how names of a bucket type are compared.
    pub fn naming(&self, bucket_type: i32) -> Naming {
        if self.naming.is_empty() {
            return Naming::default();
        }
        self.naming.get(&bucket_type).copied().unwrap_or_default()
    }

    /// Returns whether a bucket type refuses names that look alike.
    pub fn refuse_confusables(&self) -> bool {
        self.naming.values().any(|naming| naming.confusables == Confusables::Reject)
    }

    /// Returns the profile of a bucket type, by any of its names.
    pub fn profile_of(&self, bucket_type: &str) -> Profile {
        if self.naming.is_empty() {
            return Profile::Exact;
        }
        self.bucket.id(bucket_type).map_or(Profile::Exact, |id| self.naming(id).profile)
    }

    /// Returns the canonical form of a name.
    pub fn canonical<'n>(&self, bucket_type: i32, name: &'n str) -> Result<Cow<'n, str>, NameProblem> {
        self.naming(bucket_type).profile.canonical(name)
    }

    /// Returns the canonical form for a look-up.
    pub fn canonical_for_lookup<'n>(&self, bucket_type: i32, name: &'n str) -> Result<Cow<'n, str>, NameProblem> {
        self.naming(bucket_type).canonical_for_lookup(name)
    }

    /// Returns the types shown by the names that they had first, or `None` if they already are.
    pub fn by_first_names(&self) -> Option<Types> {
        let tables = [&self.bucket, &self.subject, &self.source];
        tables.iter().any(|table| table.is_renamed()).then(|| Types {
            bucket: self.bucket.by_first_names(),
            subject: self.subject.by_first_names(),
            source: self.source.by_first_names(),
            naming: self.naming.clone(),
        })
    }

    pub fn of(&self, kind: Kind) -> &TypeTable {
        match kind {
            Kind::Bucket => &self.bucket,
            Kind::Subject => &self.subject,
            Kind::Source => &self.source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(shown: &str) -> Types {
        let subject = TypeTable::new([(2, shown.to_owned())]);
        let names = [("GROUP", true), ("NAMESPACE", false), ("TEAM", false)];
        Types {
            subject: subject.with_names(names.map(|(name, is_first)| (2, name.to_owned(), is_first))),
            ..Types::default()
        }
    }

    #[test]
    fn every_name_is_known_and_one_is_shown() {
        let types = groups("TEAM");
        assert_eq!(
            ["GROUP", "NAMESPACE", "TEAM", "X"].map(|name| types.subject.id(name)),
            [Some(2), Some(2), Some(2), None]
        );
        assert_eq!((types.subject.name(2), types.subject.first_name(2)), (Some("TEAM"), Some("GROUP")));
    }

    #[test]
    fn names_of_no_type_are_unknown() {
        let table = TypeTable::new([(1, "ROUTES".to_owned())]).with_names([(2, "GONE".to_owned(), true)]);
        assert_eq!((table.id("GONE"), table.first_name(2)), (None, None));
    }

    #[test]
    fn the_first_name_outlasts_renames() {
        assert!(groups("GROUP").by_first_names().is_none());
        let lasting = groups("TEAM").by_first_names().expect("it was renamed");
        assert_eq!((lasting.subject.name(2), lasting.subject.id("TEAM")), (Some("GROUP"), Some(2)));
    }

    #[test]
    fn a_type_without_other_names_is_called_what_is_shown() {
        let types = Types { bucket: TypeTable::new([(100, "DOMAINS".to_owned())]), ..Types::default() };
        assert_eq!(types.bucket.first_name(100), Some("DOMAINS"));
        assert!(types.by_first_names().is_none());
    }
}
