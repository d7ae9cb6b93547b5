//! `make demo`: two cells with databases of their own, one shared database, the names of all Debian packages.

use std::process::ExitCode;

fn main() -> ExitCode {
    claims_harness::demo::main()
}
