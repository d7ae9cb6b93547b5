//! The stress run: `stress [--seconds N] [--seed N]`.

use std::process::ExitCode;

fn main() -> ExitCode {
    claims_harness::stress::main()
}
