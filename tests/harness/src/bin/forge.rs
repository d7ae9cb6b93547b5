//! The forged service; `tests/scripts/campaigns/forged_service.sh` starts it.

use std::process::ExitCode;

fn main() -> ExitCode {
    claims_harness::forge::main()
}
