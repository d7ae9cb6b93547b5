//! A relay of `make bench`, behind which a server is as far away as it is told.

use std::process::ExitCode;

fn main() -> ExitCode {
    claims_harness::distance::main()
}
