//! The services at which a cell claims names: one for each bucket type that is named, and one for all others.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::capture::Pending;

/// The database in which names are claimed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Route {
    /// The one that a foreign server leads to. Services come first, so that no claim of this database waits for their answers.
    Service(Rc<str>),
    /// The cell's own database, which is the service's.
    Here,
}

/// The places of a cell's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routes {
    pub cell_id: i64,
    /// The place of names whose type is not in `by_type`. `None`: they are not claimed automatically.
    pub others: Option<Route>,
    /// The foreign servers of bucket types.
    pub by_type: BTreeMap<String, Rc<str>>,
    /// The types of unique columns. Their values are claimed in this database, and never at a service.
    pub uniques: BTreeSet<String>,
    /// The place of values of unique columns. `None`: automatic mode claims them later.
    pub of_uniques: Option<Route>,
}

impl Routes {
    /// Returns the routes of a call that names a cell and the service for all types that are not named. It leaves the values of unique columns
    /// to the end of the transaction.
    pub fn of_call(automatic: Option<&Routes>, cell_id: i64, service: &str) -> Self {
        let by_type = automatic.filter(|routes| routes.cell_id == cell_id).map(|routes| routes.by_type.clone());
        Routes {
            cell_id,
            others: Some(Route::Service(service.into())),
            by_type: by_type.unwrap_or_default(),
            uniques: automatic.map(|routes| routes.uniques.clone()).unwrap_or_default(),
            of_uniques: None,
        }
    }

    /// Returns the services, some of them perhaps twice.
    pub fn services(&self) -> impl Iterator<Item = Rc<str>> {
        let others = self.others.iter().filter_map(|place| match place {
            Route::Service(server) => Some(server.clone()),
            Route::Here => None,
        });
        others.chain(self.by_type.values().cloned())
    }

    /// Returns the place of a bucket type, or `None` if it is not claimed automatically.
    pub fn of(&self, bucket_type: &str) -> Option<Route> {
        if self.uniques.contains(bucket_type) {
            return self.of_uniques.clone();
        }
        let named = self.by_type.get(bucket_type).map(|server| Route::Service(server.clone()));
        named.or_else(|| self.others.clone())
    }

    /// Returns the service that is named for a bucket type, if it is another one.
    pub fn elsewhere(&self, service: &str, bucket_type: &str) -> Option<Rc<str>> {
        if self.uniques.contains(bucket_type) {
            return None;
        }
        match self.by_type.get(bucket_type) {
            Some(named) => (&**named != service).then(|| named.clone()),
            // Two foreign servers may lead to one service, so a name that is in no route can be that of the others.
            None if !self.is_named(service) => None,
            None => match &self.others {
                Some(Route::Service(others)) => (&**others != service).then(|| others.clone()),
                Some(Route::Here) | None => None,
            },
        }
    }

    /// Returns whether the claims of a bucket type belong to a service.
    pub fn belongs_to(&self, service: &str, bucket_type: &str) -> bool {
        if self.uniques.contains(bucket_type) {
            return false;
        }
        match self.by_type.get(bucket_type) {
            Some(named) => &**named == service,
            None if !self.is_named(service) => true,
            None => matches!(&self.others, Some(Route::Service(others)) if &**others == service),
        }
    }

    /// Returns whether a service is named for a bucket type.
    fn is_named(&self, service: &str) -> bool {
        self.by_type.values().any(|named| &**named == service)
    }

    /// Divides changes by the places of their bucket types, in the order of the places. Leaves out those that have none.
    pub fn divide(&self, pending: Pending) -> Vec<(Route, Pending)> {
        let mut parts: BTreeMap<Route, Pending> = BTreeMap::new();
        let go_one_way = self.uniques.is_empty() || self.of_uniques == self.others;
        if self.by_type.is_empty() && go_one_way {
            parts.extend(self.others.clone().map(|place| (place, pending)));
            return parts.into_iter().filter(|(_, part)| !part.is_empty()).collect();
        }
        let Pending { creates, destroys, doubled } = pending;
        let mut part = |bucket_type: &str, add: &mut dyn FnMut(&mut Pending)| {
            if let Some(place) = self.of(bucket_type) {
                add(parts.entry(place).or_default());
            }
        };
        for create in creates {
            let bucket_type = create.bucket.bucket_type.clone();
            let mut create = Some(create);
            part(&bucket_type, &mut |part| part.creates.extend(create.take()));
        }
        for destroy in destroys {
            let bucket_type = destroy.bucket.bucket_type.clone();
            let mut destroy = Some(destroy);
            part(&bucket_type, &mut |part| part.destroys.extend(destroy.take()));
        }
        for create in doubled {
            let bucket_type = create.bucket.bucket_type.clone();
            let mut create = Some(create);
            part(&bucket_type, &mut |part| part.doubled.extend(create.take()));
        }
        parts.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(others: Option<Route>) -> Routes {
        let by_type = [("EMAILS", "regional"), ("PHONES", "regional"), ("ROUTES", "global")];
        let by_type = by_type.map(|(bucket_type, service)| (bucket_type.to_owned(), service.into())).into();
        Routes { cell_id: 1, others, by_type, uniques: BTreeSet::new(), of_uniques: Some(Route::Here) }
    }

    fn service(name: &str) -> Option<Route> {
        Some(Route::Service(name.into()))
    }

    #[test]
    fn a_type_goes_to_the_service_that_names_it_and_all_others_to_the_one_that_names_none() {
        let routes = routes(service("global"));
        assert_eq!(routes.of("EMAILS"), service("regional"));
        assert_eq!(routes.of("USERNAMES"), service("global"));
        assert_eq!(Routes { others: None, ..routes.clone() }.of("USERNAMES"), None);
        assert_eq!(Routes { others: Some(Route::Here), ..routes }.of("USERNAMES"), Some(Route::Here));
    }

    #[test]
    fn a_call_names_the_service_of_the_others() {
        let automatic = routes(service("global"));
        let call = Routes::of_call(Some(&automatic), 1, "third");
        assert_eq!((call.of("EMAILS"), call.of("USERNAMES")), (service("regional"), service("third")));
        let other_cell = Routes::of_call(Some(&automatic), 2, "third");
        assert_eq!(other_cell.of("EMAILS"), service("third"));
    }

    #[test]
    fn values_of_unique_columns_go_to_no_service() {
        let uniques = BTreeSet::from(["EMAILS".to_owned(), "KEYS".to_owned()]);
        let automatic = Routes { uniques, ..routes(service("global")) };
        let call = Routes::of_call(Some(&automatic), 2, "third");
        for unique in ["EMAILS", "KEYS"] {
            assert_eq!((automatic.of(unique), call.of(unique)), (Some(Route::Here), None));
            assert_eq!(automatic.elsewhere("global", unique), None);
            assert!(!automatic.belongs_to("global", unique) && !automatic.belongs_to("regional", unique));
        }
    }

    #[test]
    fn each_type_belongs_to_one_of_the_services_that_are_named() {
        for others in [service("global"), service("rest"), Some(Route::Here), None] {
            let routes = routes(others.clone());
            for bucket_type in ["EMAILS", "PHONES", "ROUTES", "USERNAMES"] {
                let of = |service: &&str| routes.belongs_to(service, bucket_type);
                let named = ["regional", "global"].iter().filter(|service| of(service)).count();
                let expected = bucket_type != "USERNAMES" || others == service("global");
                assert_eq!(named, usize::from(expected), "{bucket_type} {others:?}");
                for service in ["regional", "global", "rest"] {
                    let elsewhere = routes.elsewhere(service, bucket_type);
                    assert!(elsewhere.is_none() || !routes.belongs_to(service, bucket_type));
                    assert!(elsewhere.is_none_or(|other| routes.belongs_to(&other, bucket_type)));
                }
            }
            // A service that no type names has all types that are not named, whatever its server is called.
            assert!(routes.belongs_to("alias", "USERNAMES") && !routes.belongs_to("alias", "EMAILS"));
        }
    }

    #[test]
    fn one_service_has_everything() {
        let routes = Routes { by_type: BTreeMap::new(), ..routes(service("global")) };
        assert!(routes.belongs_to("global", "EMAILS") && routes.belongs_to("alias", "EMAILS"));
        assert_eq!(routes.elsewhere("alias", "EMAILS"), None);
    }
}
