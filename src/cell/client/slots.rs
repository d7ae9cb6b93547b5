//! The call by which the worker holds a slot for verification.

use std::time::Duration;

use super::Service;
use super::question::question;
use crate::kernel::error::ClaimsError;

impl Service<'_> {
    /// Holds a slot for verification, or holds it for longer. Returns `false` if the service has no free one. 0 seconds give it back.
    pub fn hold_verification_slot(&self, seconds: i32, timeout: Duration) -> Result<bool, ClaimsError> {
        let cell_id = self.cell_id;
        let hold = question! { "SELECT claims.hold_verification_slot({cell_id}, {seconds})", cell_id, seconds };
        self.ask_one(hold, timeout, |(is_held,): (bool,)| Ok(is_held))
    }
}
