//! `make demo`: two cells, one shared database, the names of all Debian packages.

use std::process::ExitCode;

fn main() -> ExitCode {
    claims_harness::demo::main()
}
