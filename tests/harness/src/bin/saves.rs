//! Clients of `make bench`: saves in a cell that pgbench cannot measure.

use std::process::ExitCode;

fn main() -> ExitCode {
    claims_harness::saves::main()
}
