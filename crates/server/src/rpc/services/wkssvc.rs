//! The workstation service ([MS-WKST] 3.2.4): the computer, its users and its transports.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use proto::rpc::enumeration::{self, error};
use proto::rpc::pdu::SyntaxId;
use proto::rpc::wkssvc::{
    self, ADMINISTRATOR_LEVEL, LEVELS, PUBLIC_LEVEL, Wksta, WkstaGetInfo, WkstaTransport, WkstaTransportEnum,
    WkstaUser, WkstaUserEnum, opnum,
};

use crate::accounting::Resource;
use crate::rpc::interface::{Call, Interface, Operation, operations};
use crate::rpc::listing::Listing;
use crate::user::User;

/// The workstation service.
pub(super) struct Wkssvc;

impl Interface for Wkssvc {
    fn pipe(&self) -> &'static str {
        "wkssvc"
    }

    fn syntax(&self) -> SyntaxId {
        wkssvc::INTERFACE
    }

    fn operations(&self) -> &'static [Operation] {
        operations![
            (opnum::NETR_WKSTA_GET_INFO, "NetrWkstaGetInfo", get_info),
            (opnum::NETR_WKSTA_USER_ENUM, "NetrWkstaUserEnum", user_enum),
            (opnum::NETR_WKSTA_TRANSPORT_ENUM, "NetrWkstaTransportEnum", transport_enum),
        ]
    }
}

/// NetrWkstaGetInfo (3.2.4.1).
async fn get_info(call: &Call<'_>, asked: WkstaGetInfo) -> Vec<u8> {
    let may = match asked.level {
        PUBLIC_LEVEL => true,
        ADMINISTRATOR_LEVEL => call.is_administrator().await,
        _ => call.has_account(),
    };
    if !may {
        return enumeration::info(asked.level, LEVELS, Err::<&Wksta, _>(error::ACCESS_DENIED));
    }
    let users = if asked.level == ADMINISTRATOR_LEVEL { users(call).await.len() } else { 0 };
    let policy = call.server.policy();
    let (name, domain) = (policy.netbios_name.clone(), policy.workgroup.clone());
    let computer = Wksta { name, domain, users: u32::try_from(users).unwrap_or(u32::MAX) };
    enumeration::info(asked.level, LEVELS, Ok(&computer))
}

/// NetrWkstaUserEnum (3.2.4.3): the users who have sessions, each once.
async fn user_enum(call: &Call<'_>, WkstaUserEnum(asked): WkstaUserEnum) -> Vec<u8> {
    let request = match asked {
        Ok(request) => request,
        Err(level) => return enumeration::unknown_level(level),
    };
    if !call.is_administrator().await {
        return enumeration::refused(&request, error::ACCESS_DENIED);
    }
    let mut list = Listing::new(request, call);
    for user in users(call).await.values() {
        if list.offer(true).await {
            let (netbios_name, own) = (call.server.policy().netbios_name.clone(), call.server.domain().is_none());
            // The domain controller that has authenticated a user of a domain is not known.
            let server = if own { netbios_name } else { String::new() };
            list.add(&WkstaUser { name: user.name.clone(), domain: user.domain.clone(), server });
        }
    }
    list.finish()
}

/// NetrWkstaTransportEnum (3.2.4.4). SMB over TCP is the only transport.
async fn transport_enum(call: &Call<'_>, WkstaTransportEnum(asked): WkstaTransportEnum) -> Vec<u8> {
    let request = match asked {
        Ok(request) => request,
        Err(level) => return enumeration::unknown_level(level),
    };
    if !call.has_account() {
        return enumeration::refused(&request, error::ACCESS_DENIED);
    }
    let mut list = Listing::new(request, call);
    if list.offer(true).await {
        let connections = call.server.accounting.held(Resource::Connections);
        list.add(&WkstaTransport { connections: u32::try_from(connections).unwrap_or(u32::MAX) });
    }
    list.finish()
}

/// Returns the users who have sessions, by domain and name.
async fn users(call: &Call<'_>) -> BTreeMap<(String, String), Arc<User>> {
    let mut users = BTreeMap::new();
    let _ = call
        .server
        .walk_sessions(|_, user| {
            if !user.anonymous {
                users.entry((user.domain.clone(), user.name.clone())).or_insert_with(|| user.clone());
            }
            ControlFlow::Continue(())
        })
        .await;
    users
}

#[cfg(test)]
mod tests {
    use proto::rpc::enumeration::MAX_PREFERRED_LENGTH;
    use proto::rpc::ndr::Encoder;

    use super::*;
    use crate::policy::{Policy, UserPattern};
    use crate::rpc::tests::client::PipeClient;
    use crate::rpc::tests::lists::Member::{Number, Text};
    use crate::rpc::tests::lists::{column, decode, last, listing};
    use crate::testing::{TestClient, TestServer};

    #[test]
    fn calls_are_answered_by_the_rights_of_the_caller() {
        let configure = |policy: &mut Policy| policy.admin_users = vec![UserPattern::User("alice".into())];
        let server = TestServer::builder().configure(configure).start();
        let mut anonymous = TestClient::new(&server);
        anonymous.negotiate(proto::smb2::negotiate::SecurityMode::NONE);
        anonymous.log_on_anonymously();
        let (ok, denied) = (error::SUCCESS, error::ACCESS_DENIED);
        for (client, account, administrator) in [
            (TestClient::logged_on(&server, "alice"), ok, ok),
            (TestClient::logged_on(&server, "bob"), ok, denied),
            (anonymous, denied, denied),
        ] {
            let mut pipe = PipeClient::new(client, "wkssvc");
            for (level, expected) in [(100, ok), (101, account), (102, administrator), (103, error::INVALID_LEVEL)] {
                let mut out = Encoder::default();
                out.null();
                out.u32(level);
                assert_eq!(last(&pipe.call(opnum::NETR_WKSTA_GET_INFO, &out.into_bytes())), expected, "{level}");
            }
            for (level, members) in [(0, &[Text][..]), (1, &[Text, Text, Text, Text])] {
                let stub = listing(&[], level, MAX_PREFERRED_LENGTH, Some(0));
                let users = decode(&pipe.call(opnum::NETR_WKSTA_USER_ENUM, &stub), members);
                assert_eq!(users.status, administrator);
                if administrator == ok {
                    assert_eq!(column(&users, 0), ["alice", "bob"], "sorted, and each once");
                }
            }
            let stub = listing(&[], 0, MAX_PREFERRED_LENGTH, Some(0));
            let transports = pipe.call(opnum::NETR_WKSTA_TRANSPORT_ENUM, &stub);
            let transports = decode(&transports, &[Number, Number, Text, Text, Number]);
            assert_eq!((transports.status, transports.total), (account, u32::from(account == ok)));
            for call in [opnum::NETR_WKSTA_USER_ENUM, opnum::NETR_WKSTA_TRANSPORT_ENUM] {
                assert_eq!(last(&pipe.call(call, &listing(&[], 7, 0, None))), error::INVALID_LEVEL);
            }
        }
    }
}
