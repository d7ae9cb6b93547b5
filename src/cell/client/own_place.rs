//! The place of this database, as the services that it calls are told.

use std::cell::Cell;

use claims_model::place::Place;

use pg::{background, place};

/// Largest number of characters of an address that the service takes.
const ADDRESS_CHARS: usize = 1000;

thread_local! {
    static ID: Cell<Option<i64>> = const { Cell::new(None) };
}

/// Returns the number of the place, which every save presents.
pub fn id() -> i64 {
    ID.get().unwrap_or_else(|| {
        let id = own().id;
        ID.set(Some(id));
        id
    })
}

/// Returns the place.
pub fn own() -> Place {
    let place::ServerLocation { host, directory, file } = place::location();
    Place::new(&background::database_identity(), &format!("{host}\0{directory}\0{file}"), place::timeline())
}

/// Returns the machine and the directory in words.
pub fn address() -> String {
    let place::ServerLocation { host, directory, .. } = place::location();
    let plain = |character: char| if character.is_control() { '?' } else { character };
    format!("{host}:{directory}").chars().map(plain).take(ADDRESS_CHARS).collect()
}
