//! The values of `%` variables of smb.conf in a request.

use proto::smb2::negotiate::Dialect;

use super::Request;
use crate::domain;
use crate::policy::template::Variable;
use crate::user::User;

impl Request<'_> {
    /// Returns the value of a variable that depends on the session of `user`, but not on a share or the time; `None` if
    /// it has none.
    pub(crate) fn variable(&self, user: &User, variable: Variable) -> Option<String> {
        let connection = self.connection;
        let (remote, local) = (connection.peer.remote.ip().to_string(), connection.peer.local.ip().to_string());
        let plain = |address: &str| address.replace(['.', ':'], "_");
        of_user(user, variable).or_else(|| match variable {
            Variable::CLIENT_NETBIOS_NAME | Variable::CLIENT_HOST | Variable::CLIENT_ADDRESS => Some(remote),
            Variable::CLIENT_ADDRESS_PLAIN => Some(plain(&remote)),
            Variable::SERVER_ADDRESS => Some(local),
            Variable::SERVER_ADDRESS_PLAIN => Some(plain(&local)),
            Variable::PROTOCOL => Some(protocol_name(connection.dialect()).to_owned()),
            _ => None,
        })
    }
}

/// Returns the value of a variable that depends on the user only.
pub(crate) fn of_user(user: &User, variable: Variable) -> Option<String> {
    match variable {
        // As in Samba: `SESSION_USER` is the name without the domain, in lower case.
        Variable::SESSION_USER => Some(domain::split(&user.name).map_or(&*user.name, |(_, name)| name).to_lowercase()),
        Variable::USER => Some(user.name.clone()),
        Variable::SESSION_GROUP | Variable::GROUP => user.groups.first().cloned(),
        Variable::CLIENT_NETBIOS_NAME if !user.workstation.is_empty() => Some(user.workstation.to_lowercase()),
        _ => None,
    }
}

/// Returns the value of `%R`.
fn protocol_name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::SMB_3_1_1 => "SMB3_11",
        Dialect::SMB_3_0_2 => "SMB3_02",
        Dialect::SMB_3_0 => "SMB3_00",
        Dialect::SMB_2_1 => "SMB2_10",
        _ => "SMB2_02",
    }
}
