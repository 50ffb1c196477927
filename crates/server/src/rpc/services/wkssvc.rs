//! The workstation service ([MS-WKST] 3.2.4): the computer, its users and its transports.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use proto::rpc::enumeration::{self, error};
use proto::rpc::pdu::SyntaxId;
use proto::rpc::wkssvc::{
    self, ADMINISTRATOR_LEVEL, EnumerateComputerNames, LEVELS, PUBLIC_LEVEL, UseEnum, Wksta, WkstaGetInfo,
    WkstaTransport, WkstaTransportEnum, WkstaUser, WkstaUserEnum, opnum,
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
            (opnum::NETR_USE_ENUM, "NetrUseEnum", use_enum),
            (opnum::NETR_LOGON_DOMAIN_NAME_ADD, "NetrLogonDomainNameAdd", not_remote::<0>),
            (opnum::NETR_LOGON_DOMAIN_NAME_DEL, "NetrLogonDomainNameDel", not_remote::<0>),
            (opnum::NETR_JOIN_DOMAIN, "NetrJoinDomain", not_remote::<0>),
            (opnum::NETR_UNJOIN_DOMAIN, "NetrUnjoinDomain", not_remote::<0>),
            (opnum::NETR_VALIDATE_NAME, "NetrValidateName", not_remote::<0>),
            (opnum::NETR_GET_JOIN_INFORMATION, "NetrGetJoinInformation", join_information),
            (opnum::NETR_GET_JOINABLE_OUS, "NetrGetJoinableOUs", not_remote::<2>),
            (opnum::NETR_ENUMERATE_COMPUTER_NAMES, "NetrEnumerateComputerNames", computer_names),
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

/// Refuses a call that is not used on the wire (3.2.4, opnums 14 to 17, 19 and 21), as Windows does. Its results have
/// `RESULTS` units of four bytes before the status.
async fn not_remote<const RESULTS: usize>(_: &Call<'_>, (): ()) -> Vec<u8> {
    [vec![0; RESULTS * 4], wkssvc::NOT_SUPPORTED.to_le_bytes().to_vec()].concat()
}

/// NetrUseEnum (3.2.4.10). The server is not connected to shares of others.
async fn use_enum(call: &Call<'_>, UseEnum(asked): UseEnum) -> Vec<u8> {
    match asked {
        Ok(request) if call.has_account() => Listing::new(request, call).finish(),
        Ok(request) => enumeration::refused(&request, error::ACCESS_DENIED),
        Err(level) => enumeration::unknown_level(level),
    }
}

/// NetrGetJoinInformation (3.2.4.12): the workgroup or the domain.
async fn join_information(call: &Call<'_>, (): ()) -> Vec<u8> {
    if !call.has_account() {
        return wkssvc::join_information_response(None, 0, error::ACCESS_DENIED);
    }
    let kind = if call.server.domain().is_some() { wkssvc::DOMAIN_NAME } else { wkssvc::WORKGROUP_NAME };
    wkssvc::join_information_response(Some(&call.server.policy().workgroup), kind, error::SUCCESS)
}

/// NetrEnumerateComputerNames (3.2.4.21), which is for administrators. There is only the primary name.
async fn computer_names(call: &Call<'_>, asked: EnumerateComputerNames) -> Vec<u8> {
    const PRIMARY: u16 = 0;
    const ALTERNATE: u16 = 1;
    const ALL: u16 = 2;
    const IGNORE_UNSUPPORTED_FLAGS: u32 = 1;
    const INVALID_FLAGS: u32 = 1004;
    let policy = call.server.policy();
    let own = [policy.netbios_name.as_str()];
    wkssvc::computer_names_response(match asked.kind {
        _ if !call.is_administrator().await => Err(error::ACCESS_DENIED),
        _ if asked.flags != 0 && asked.flags & IGNORE_UNSUPPORTED_FLAGS == 0 => Err(INVALID_FLAGS),
        PRIMARY | ALL => Ok(&own),
        ALTERNATE => Ok(&[]),
        _ => Err(error::INVALID_PARAMETER),
    })
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
            let uses = decode(&pipe.call(opnum::NETR_USE_ENUM, &stub), &[Text, Text]);
            assert_eq!((uses.status, uses.total), (account, 0));
            let joined = pipe.call(opnum::NETR_GET_JOIN_INFORMATION, &[]);
            assert_eq!(last(&joined), account);
            for (kind, flags, expected) in
                [(0_u16, 0_u32, ok), (1, 0, ok), (2, 1, ok), (3, 0, error::INVALID_PARAMETER), (0, 2, 1004)]
            {
                let mut out = Encoder::default();
                out.null();
                out.u16(kind);
                out.u32(flags);
                let names = pipe.call(opnum::NETR_ENUMERATE_COMPUTER_NAMES, &out.into_bytes());
                assert_eq!(last(&names), if administrator == ok { expected } else { denied }, "{kind} {flags}");
            }
            for call in [opnum::NETR_JOIN_DOMAIN, opnum::NETR_VALIDATE_NAME] {
                assert_eq!(last(&pipe.call(call, &[])), 50);
            }
            for call in [opnum::NETR_WKSTA_USER_ENUM, opnum::NETR_WKSTA_TRANSPORT_ENUM] {
                assert_eq!(last(&pipe.call(call, &listing(&[], 7, 0, None))), error::INVALID_LEVEL);
            }
        }
    }
}
