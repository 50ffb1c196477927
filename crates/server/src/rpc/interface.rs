//! The interface of a service, and the table of its operations.

use std::sync::Arc;

use parking_lot::Mutex;
use proto::crypto::kdf::Key;
use proto::dtyp::Sid;
use proto::rpc::pdu::{ByteOrder, FAULT_OP_RANGE, SyntaxId};

use super::context_handles::ContextHandles;
use super::documents::Documents;
use super::security_context::SecurityContext;
use crate::accounting::Payer;
use crate::named_pipe::{BoxFuture, Caller};
use crate::policy::limits::RPC_STUB_BYTES;
use crate::state::Server;
use crate::user::User;
use crate::user_lists::UserMatcher;

/// The encoded results of a call, or the status of a fault.
pub(super) type Results = Result<Vec<u8>, u32>;

/// A service: an interface that clients reach through a pipe of its own.
pub(super) trait Interface: Sync {
    /// Returns the name of the pipe.
    fn pipe(&self) -> &'static str;

    /// Returns the UUID and the version of the interface, to which clients bind.
    fn syntax(&self) -> SyntaxId;

    /// Returns the maximum size in bytes of a call's stub data.
    fn max_stub(&self) -> usize {
        RPC_STUB_BYTES
    }

    /// Returns the operations; any other operation number is answered with a fault.
    fn operations(&self) -> &'static [Operation];
}

/// An operation of an interface. [`operations`] makes a table of them.
pub(super) struct Operation {
    /// The number in a request.
    pub(super) opnum: u16,
    /// The name in the specification.
    pub(super) name: &'static str,
    /// Executes a call with this stub data.
    pub(super) execute: for<'a> fn(&'a [u8], &'a Call<'a>) -> BoxFuture<'a, Results>,
}

/// The privilege to add, change and remove shares, which Samba defines.
pub(super) const DISK_OPERATOR: &str = "SeDiskOperatorPrivilege";

/// What makes a user an administrator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rank {
    /// They act as root on every share.
    Root,
    /// They are a member of BUILTIN\\Administrators.
    Administrator,
}

/// The context of one call.
pub(super) struct Call<'a> {
    pub(super) server: &'a Arc<Server>,
    pub(super) caller: &'a dyn Caller,
    /// The context handles that the client has opened through the pipe.
    pub(super) handles: &'a Mutex<ContextHandles>,
    /// The documents that the client has begun to print.
    pub(super) documents: &'a Mutex<Documents>,
    /// The authentication of the pipe itself.
    pub(super) security: &'a SecurityContext,
    /// The payer of the pipe's memory.
    pub(super) payer: &'a Arc<Payer>,
    /// The order of the bytes of the arguments.
    pub(super) order: ByteOrder,
}

impl Call<'_> {
    /// Returns the user of the session.
    pub(super) fn user(&self) -> Option<Arc<User>> {
        self.caller.user()
    }

    /// Returns the key that encrypts passwords in calls: that of the pipe's own authentication, else the session's.
    pub(super) fn session_key(&self) -> Option<Key> {
        self.security.session_key().or_else(|| self.caller.application_key())
    }

    /// Returns whether the user is anonymous.
    pub(super) fn is_anonymous(&self) -> bool {
        self.user().is_none_or(|user| user.anonymous)
    }

    /// Returns whether the user has an account. Anonymous and guest users get no information about accounts through
    /// pipes.
    pub(super) fn has_account(&self) -> bool {
        self.user().is_some_and(|user| !user.anonymous && !user.guest)
    }

    /// Returns whether the user may see and change what other users do: root, a member of BUILTIN\\Administrators, or
    /// one of the `admin users` of the global section. `false` if that cannot be determined.
    pub(super) async fn is_administrator(&self) -> bool {
        self.rank().await.is_some()
    }

    /// Returns whether the user acts as root on every share: root, or one of the `admin users` of the global section.
    pub(super) async fn acts_as_root(&self) -> bool {
        self.rank().await == Some(Rank::Root)
    }

    /// Returns whether the user may add, change and remove shares: they act as root, or they have
    /// SeDiskOperatorPrivilege, which only such a user grants.
    pub(super) async fn may_change_shares(&self) -> bool {
        self.acts_as_root().await || self.holds(DISK_OPERATOR).await
    }

    /// Returns whether a privilege was granted to the user or to a group of theirs. `false` if that cannot be
    /// determined.
    async fn holds(&self, privilege: &str) -> bool {
        let Some(user) = self.user().filter(|user| !user.anonymous && !user.guest) else { return false };
        let Ok(token) = self.server.token_of(&user).await else { return false };
        let granted =
            |sid: &Sid| self.server.accounts.lsa.rights(sid).is_some_and(|it| it.privileges.contains(privilege));
        token.sids().iter().any(granted)
    }

    async fn rank(&self) -> Option<Rank> {
        let user = self.user().filter(|user| !user.anonymous && !user.guest)?;
        let token = self.server.token_of(&user).await.ok()?;
        let (sids, policy) = (token.sids(), self.server.policy().clone());
        let matcher = UserMatcher::new(&user, &sids, &self.server.accounts, &policy);
        if user.identity.uid == 0 || matcher.is_on(&policy.admin_users).await.unwrap_or(false) {
            return Some(Rank::Root);
        }
        sids.contains(&Sid::BUILTIN_ADMINISTRATORS).then_some(Rank::Administrator)
    }
}

/// Executes the operation `opnum` of an interface.
pub(super) async fn execute(interface: &dyn Interface, opnum: u16, stub: &[u8], call: &Call<'_>) -> Results {
    let operation = interface.operations().iter().find(|operation| operation.opnum == opnum).ok_or(FAULT_OP_RANGE)?;
    tracing::trace!(pipe = interface.pipe(), operation = operation.name, "call");
    (operation.execute)(stub, call).await
}

/// What a handler returns: the encoded results, or those or the status of a fault.
pub(super) trait IntoResults {
    /// Returns the results or the fault.
    fn into_results(self) -> Results;
}

impl IntoResults for Vec<u8> {
    fn into_results(self) -> Results {
        Ok(self)
    }
}

impl IntoResults for Results {
    fn into_results(self) -> Results {
        self
    }
}

/// Makes a table of operations. Each row has the operation number, the name and the handler. A handler is an `async fn`
/// that takes the [`Call`], or a type that is converted from it, and the arguments, and returns [`IntoResults`].
/// The type of the arguments is the decoder: it implements [`proto::rpc::ndr::Arguments`].
macro_rules! operations {
    ($(($opnum:expr, $name:literal, $handler:expr)),* $(,)?) => {
        &[$($crate::rpc::interface::Operation {
            opnum: $opnum,
            name: $name,
            execute: |stub, call| Box::pin(async move {
                let mut decoder = proto::rpc::ndr::Decoder::with_order(stub, call.order);
                let arguments = proto::rpc::ndr::Arguments::read(&mut decoder)
                    .map_err(|_| proto::rpc::pdu::FAULT_BAD_STUB)?;
                $crate::rpc::interface::IntoResults::into_results($handler(call.into(), arguments).await)
            }),
        }),*]
    };
}

pub(super) use operations;
