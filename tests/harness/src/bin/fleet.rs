//! Many sessions of a cell's application that save at the same time.

use std::process::ExitCode;

fn main() -> ExitCode {
    claims_harness::fleet::main()
}
