//! The word of the client of a call about who acts, and why: by settings of its session, or by arguments.

use std::ffi::CString;
use std::rc::Rc;

use claims_model::attribution::Attribution;
use claims_model::{BadInput, Problem};

use super::settings;
use crate::kernel::error::ClaimsError;
use pg::roles;
use pg::settings::check_line;

/// Returns what the session says.
pub fn of_session() -> Attribution {
    Attribution { context: settings::context().map(text), cell_role: settings::cell_role().map(text) }
}

/// Returns what a session of a cell says to its service: its context, and the role that has logged in.
pub fn of_cell() -> Attribution {
    let role = roles::name(roles::of_session());
    Attribution { context: settings::context().map(text), cell_role: Some(role.into()) }
}

/// Returns what the arguments of a call say, and what the session says where they are NULL.
pub fn of_call(context: Option<&str>, cell_role: Option<&str>) -> Result<Attribution, ClaimsError> {
    let session = of_session();
    Ok(Attribution {
        context: argument(context, "context")?.unwrap_or(session.context),
        cell_role: argument(cell_role, "cell_role")?.unwrap_or(session.cell_role),
    })
}

/// Returns the value of an argument, by the rule of the settings. An empty text says nothing.
fn argument(value: Option<&str>, name: &str) -> Result<Option<Option<Rc<str>>>, ClaimsError> {
    let Some(value) = value else { return Ok(None) };
    let problem = Problem::OutOfRange { allowed: "at most 256 bytes without control characters" };
    check_line(value.as_bytes()).map_err(|_| BadInput::new(name, problem))?;
    Ok(Some((!value.is_empty()).then(|| value.into())))
}

fn text(setting: CString) -> Rc<str> {
    setting.to_string_lossy().into()
}
