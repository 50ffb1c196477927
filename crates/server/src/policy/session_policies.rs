//! Settings that depend on the session: `include` of a file whose name has variables such as `%m` and `%U`.

use std::fmt;
use std::sync::Arc;

use super::Policy;
use super::template::Variable;
use crate::accounts::Unavailable;
use crate::answer::Answer;
use crate::error::{self, Error};
use proto::status::Status;

/// The policies of sessions.
pub trait SessionPolicies: fmt::Debug + Send + Sync {
    /// Returns the policy of a session in which the variables have these values; `None` if it is the same as that of
    /// the server. An error means that the session's files cannot be read, or have errors in `[global]`.
    fn policy(&self, values: SessionValues) -> Answer<Result<Option<Arc<Policy>>, Unavailable>>;

    /// Sets what completes each policy with settings from outside the configuration. Called once.
    fn complete_with(&self, complete: Complete);
}

/// The values of [`SESSION_VARIABLES`], in their order.
pub type SessionValues = [Option<String>; SESSION_VARIABLES.len()];

/// Completes a policy.
pub type Complete = Box<dyn Fn(Policy) -> Policy + Send + Sync>;

/// The variables that the name of an included file may have.
pub const SESSION_VARIABLES: [Variable; 11] = [
    Variable::SESSION_USER,
    Variable::SESSION_GROUP,
    Variable::USER,
    Variable::GROUP,
    Variable::CLIENT_NETBIOS_NAME,
    Variable::CLIENT_HOST,
    Variable::CLIENT_ADDRESS,
    Variable::CLIENT_ADDRESS_PLAIN,
    Variable::SERVER_ADDRESS,
    Variable::SERVER_ADDRESS_PLAIN,
    Variable::PROTOCOL,
];

impl Policy {
    /// Returns the policy of a session in which variables have the values of `value`.
    pub(crate) async fn of_session(
        self: Arc<Policy>,
        value: impl Fn(Variable) -> Option<String>,
    ) -> error::Result<Arc<Policy>> {
        let Some(sessions) = &self.sessions else { return Ok(self) };
        match sessions.policy(SESSION_VARIABLES.map(value)).await {
            Ok(policy) => Ok(policy.unwrap_or(self)),
            Err(why) => {
                tracing::error!(why = why.0, "the included files of a session cannot be used; it gets no shares");
                Err(Error::because(Status::BAD_NETWORK_NAME, "the included files of the session cannot be used"))
            }
        }
    }
}
