//! What is raised where the tables of the extension are not as it has made them, or hold what it never writes there: somebody
//! with the owner's rights has altered them.

use std::sync::OnceLock;

/// What was found.
#[derive(Debug)]
pub enum Altered {
    /// A column is not there any more, or has another type.
    Column { name: String },
    /// A column is NULL that never is.
    Null { name: String },
}

static RAISE: OnceLock<fn(Altered)> = OnceLock::new();

/// Called once per process. `raise` raises an error.
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
