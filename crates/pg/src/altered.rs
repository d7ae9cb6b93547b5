//! The error for tables of the extension that differ from what it has created, or hold values that it never writes.
//! Somebody with the owner's rights has altered them.

use std::sync::OnceLock;

/// The difference that was found.
#[derive(Debug)]
pub enum Altered {
    /// The column does not exist any more, or has another type.
    Column { name: String },
    /// The column is NULL, although the extension never writes NULL.
    Null { name: String },
}

static RAISE: OnceLock<fn(Altered)> = OnceLock::new();

/// Sets the function that raises the error. Called once per process.
pub fn register(raise: fn(Altered)) {
    let _ = RAISE.set(raise);
}

pub(super) fn raise(altered: Altered) -> ! {
    if let Some(raise) = RAISE.get() {
        raise(altered);
        unreachable!("an error was raised");
    }
    panic!("{altered:?}");
}
