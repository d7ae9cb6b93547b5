//! Administrative acts: for administrators, each with a row in `claims.admin_log` and a line in the server's log, and
//! those that change what others may rely on with a reason.
//!
//! An act is one call: `Act::begin("set_mode", reason)?.with("mode", mode).perform(|connection| …)`. Those that change many
//! rows say how many, by `perform_counted`.

use claims_model::limits::REASON_CHARS;
use claims_model::{BadInput, Problem};
use serde_json::{Map, Value};

use crate::access;
use crate::arguments;
use crate::distribution;
use crate::error::{ClaimsError, log_act};
use crate::pg::roles;
use crate::pg::spi::{self, Connection};
use crate::pg::xact;
use crate::store::admin_log::{self, ActEntry};

/// What an act has come to, in numbers, for the logs.
pub type Counts = Vec<(&'static str, i64)>;

/// An act that the caller may do, and has given his reason for where it takes one.
pub struct Act {
    action: &'static str,
    reason: Option<String>,
    arguments: Map<String, Value>,
}

impl Act {
    /// Raises 42501 where the caller is no administrator, and 22023 where there is no reason.
    pub fn begin(action: &'static str, reason: Option<String>) -> Result<Self, ClaimsError> {
        access::administer()?;
        let reason = arguments::text(reason, "reason", REASON_CHARS)?;
        if reason.trim().is_empty() {
            return Err(BadInput::new("reason", Problem::Empty).into());
        }
        Ok(Act { action, reason: Some(reason), arguments: Map::new() })
    }

    /// Of what a cell does at the service, which has looked who is calling.
    pub fn of_cell(action: &'static str, reason: String) -> Self {
        Act { action, reason: Some(reason), arguments: Map::new() }
    }

    /// Of functions whose arguments have no reason.
    pub fn without_reason(action: &'static str) -> Result<Self, ClaimsError> {
        access::administer()?;
        Ok(Act { action, reason: None, arguments: Map::new() })
    }

    /// Empty for an act that takes none.
    pub fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or_default()
    }

    /// One of the arguments, for the logs.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.arguments.insert(name.to_owned(), value.into());
        self
    }

    /// Does it. What fails leaves no row, and what is rolled back later leaves only the line.
    pub fn perform<T>(self, body: impl FnOnce(&Connection) -> Result<T, ClaimsError>) -> Result<T, ClaimsError> {
        self.perform_counted(|connection| Ok((body(connection)?, Counts::new())))
    }

    /// The same; the body also says how much it has changed.
    pub fn perform_counted<T>(
        self,
        body: impl FnOnce(&Connection) -> Result<(T, Counts), ClaimsError>,
    ) -> Result<T, ClaimsError> {
        let (session_role, role) = (roles::name(roles::of_session()), roles::name(roles::caller()));
        let Act { action, reason, arguments } = self;
        let arguments = Value::Object(arguments).to_string();
        let (result, entry) = spi::connect(|connection| {
            if distribution::is_spread() {
                // Other nodes are told to commit when this one has: a crash here must not undo that.
                xact::commit_durably();
            }
            let (result, counts) = body(connection)?;
            let counts = (!counts.is_empty()).then(|| json_of(counts).to_string());
            let entry = ActEntry { session_role, role, action, arguments, reason, counts };
            admin_log::record(connection, &entry);
            Ok::<_, ClaimsError>((result, entry))
        })?;
        // A cancel may jump out of here: nothing may be open any more.
        let ActEntry { session_role, role, action, arguments, reason, counts } = entry;
        log_act(action, [&role, &session_role], &arguments, reason.as_deref(), counts.as_deref());
        Ok(result)
    }
}

fn json_of(counts: Counts) -> Value {
    Value::Object(counts.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect())
}
