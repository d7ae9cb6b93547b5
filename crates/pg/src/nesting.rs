//! Sections of code that must end in the reverse order of their beginnings: settings, rights, SPI connections, subtransactions.

use std::cell::Cell;

thread_local! {
    /// Opens what waits to be opened in the current section.
    static OPENER: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// Registers the function that opens what waits. It does nothing where nothing waits.
pub(super) fn on_begin(opener: fn()) {
    OPENER.set(Some(opener));
}

/// Must be called before a section begins: what belongs to the outer section is opened now, and so ends after the new one.
pub(super) fn begin() {
    if let Some(opener) = OPENER.get() {
        opener();
    }
}
