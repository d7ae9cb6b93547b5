//! The failover campaign: `scripts/failover` prepares what it needs.

use std::process::ExitCode;

fn main() -> ExitCode {
    claims_harness::failover::main()
}
