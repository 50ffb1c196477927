//! The values of `%` variables that depend on the session and its share.

use crate::policy::Share;
use crate::policy::snapshots::Format;
use crate::policy::template::Variable;
use crate::request::{Request, variables};
use crate::state::Server;
use crate::user::User;

/// Returns the value of a variable in the session of `user` on `share`; `None` if it has none.
pub(super) fn value(request: &Request<'_>, share: &Share, user: &User, variable: Variable) -> Option<String> {
    match variable {
        Variable::SHARE => Some(share.name.clone()),
        Variable::TIME_PLAIN => Some(time(&request.connection.server)),
        other => request.variable(user, other),
    }
}

/// Returns the value of a variable that depends on the user and the share only.
pub(crate) fn of_user(share: &Share, user: &User, variable: Variable) -> Option<String> {
    match variable {
        Variable::SHARE => Some(share.name.clone()),
        other => variables::of_user(user, other),
    }
}

/// Returns the value of `%t`.
fn time(server: &Server) -> String {
    let form = Format::parse("%Y%m%d_%H%M%S", false).unwrap_or_else(|_| Format::token());
    String::from_utf8_lossy(&form.name(server.environment.now().secs, Some(server.policy().utc_offset))).into_owned()
}
