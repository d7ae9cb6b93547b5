//! The crash campaign's writers, recoveries and judge; `tests/scripts/campaigns/campaign.sh` starts it and does the crashing.

use std::process::ExitCode;

fn main() -> ExitCode {
    claims_harness::campaign::main()
}
