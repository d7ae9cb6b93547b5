//! Admin actions: calls for administrators, each with a row in `claims.admin_log` and a line in the server's log.
//! Actions that change what others rely on require a reason.
//!
//! An action is one call: `AdminAction::begin("set_mode", reason)?.with("mode", mode).perform(|call| …)`. Actions
//! that change many rows log their numbers with `perform_counted`.

use claims_model::limits::REASON_CHARS;
use claims_model::{BadInput, Problem};
use serde_json::{Map, Value};

use super::admin_log::{self, AdminLogEntry};
use super::call::Call;
use super::error::{ClaimsError, log_admin_action};
use super::{access, arguments};
use pg::roles;

/// The numbers of changed rows, for the logs.
pub type Counts = Vec<(&'static str, i64)>;

/// An action that the caller may perform, with a reason if it requires one.
pub struct AdminAction {
    action: &'static str,
    reason: Option<String>,
    arguments: Map<String, Value>,
}

impl AdminAction {
    /// Raises 42501 if the caller is not an administrator, and 22023 if the reason is missing.
    pub fn begin(action: &'static str, reason: Option<String>) -> Result<Self, ClaimsError> {
        access::administer()?;
        let reason = arguments::text(reason, "reason", REASON_CHARS)?;
        if reason.trim().is_empty() {
            return Err(BadInput::new("reason", Problem::Empty).into());
        }
        Ok(AdminAction { action, reason: Some(reason), arguments: Map::new() })
    }

    /// Returns an action of a cell at the service, which has already checked the caller.
    pub fn of_cell(action: &'static str, reason: String) -> Self {
        AdminAction { action, reason: Some(reason), arguments: Map::new() }
    }

    /// Returns an action without a reason. Raises 42501 if the caller is not an administrator.
    pub fn without_reason(action: &'static str) -> Result<Self, ClaimsError> {
        access::administer()?;
        Ok(AdminAction { action, reason: None, arguments: Map::new() })
    }

    /// Returns the reason, which is empty for an action without one.
    pub fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or_default()
    }

    /// Adds an argument, for the logs.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.arguments.insert(name.to_owned(), value.into());
        self
    }

    /// Performs the action. If it fails, no row is logged. If it is rolled back later, only the line in the server's
    /// log remains.
    pub fn perform<T>(self, body: impl FnOnce(&Call) -> Result<T, ClaimsError>) -> Result<T, ClaimsError> {
        self.perform_counted(|call| Ok((body(call)?, Counts::new())))
    }

    /// Like [`AdminAction::perform`]; the body also returns the numbers of changed rows.
    pub fn perform_counted<T>(
        self,
        body: impl FnOnce(&Call) -> Result<(T, Counts), ClaimsError>,
    ) -> Result<T, ClaimsError> {
        let (session_role, role) = (roles::name(roles::of_session()), roles::name(roles::caller()));
        let AdminAction { action, reason, arguments } = self;
        let arguments = Value::Object(arguments).to_string();
        let (result, entry) = Call::run(|call| {
            call.tables.begin_admin_action();
            let (result, counts) = body(call)?;
            let counts = (!counts.is_empty()).then(|| json_of(counts).to_string());
            let entry = AdminLogEntry { session_role, role, action, arguments, reason, counts };
            admin_log::record(call.connection, &entry);
            Ok::<_, ClaimsError>((result, entry))
        })?;
        // A cancel may leave this function here by longjmp(), so no connection may be open.
        let AdminLogEntry { session_role, role, action, arguments, reason, counts } = entry;
        log_admin_action(action, [&role, &session_role], &arguments, reason.as_deref(), counts.as_deref());
        Ok(result)
    }
}

fn json_of(counts: Counts) -> Value {
    Value::Object(counts.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect())
}
