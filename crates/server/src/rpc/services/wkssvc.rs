//! The workstation service ([MS-WKST] 3.2.4): the computer, its users and its transports.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use proto::rpc::enumeration::{self, error};
use proto::rpc::pdu::SyntaxId;
use proto::rpc::srvsvc::server::TRANSPORT_NAME;
use proto::rpc::wkssvc::{
    self, ADMINISTRATOR_LEVEL, EnumerateComputerNames, LEVELS, PUBLIC_LEVEL, REDIRECTOR_LEVEL, StatisticsGet, UseEnum,
    UseGetInfo, Wksta, WkstaGetInfo, WkstaTransport, WkstaTransportAdd, WkstaTransportDel, WkstaTransportEnum,
    WkstaUser, WkstaUserEnum, WkstaUserGetInfo, opnum,
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
            (opnum::NETR_WKSTA_USER_GET_INFO, "NetrWkstaUserGetInfo", user_get_info),
            (opnum::NETR_WKSTA_TRANSPORT_ENUM, "NetrWkstaTransportEnum", transport_enum),
            (opnum::NETR_WKSTA_TRANSPORT_ADD, "NetrWkstaTransportAdd", transport_add),
            (opnum::NETR_WKSTA_TRANSPORT_DEL, "NetrWkstaTransportDel", transport_del),
            (opnum::NETR_USE_ADD, "NetrUseAdd", use_add),
            (opnum::NETR_USE_GET_INFO, "NetrUseGetInfo", use_get_info),
            (opnum::NETR_USE_DEL, "NetrUseDel", use_del),
            (opnum::NETR_USE_ENUM, "NetrUseEnum", use_enum),
            (opnum::NETR_MESSAGE_BUFFER_SEND, "NetrMessageBufferSend", not_remote::<0>),
            (opnum::NETR_WORKSTATION_STATISTICS_GET, "NetrWorkstationStatisticsGet", statistics),
            (opnum::NETR_LOGON_DOMAIN_NAME_ADD, "NetrLogonDomainNameAdd", not_remote::<0>),
            (opnum::NETR_LOGON_DOMAIN_NAME_DEL, "NetrLogonDomainNameDel", not_remote::<0>),
            (opnum::NETR_JOIN_DOMAIN, "NetrJoinDomain", not_remote::<0>),
            (opnum::NETR_UNJOIN_DOMAIN, "NetrUnjoinDomain", not_remote::<0>),
            (opnum::NETR_RENAME_MACHINE_IN_DOMAIN, "NetrRenameMachineInDomain", not_remote::<0>),
            (opnum::NETR_VALIDATE_NAME, "NetrValidateName", not_remote::<0>),
            (opnum::NETR_GET_JOIN_INFORMATION, "NetrGetJoinInformation", join_information),
            (opnum::NETR_GET_JOINABLE_OUS, "NetrGetJoinableOUs", not_remote::<2>),
            (opnum::NETR_JOIN_DOMAIN_2, "NetrJoinDomain2", not_remote::<0>),
            (opnum::NETR_UNJOIN_DOMAIN_2, "NetrUnjoinDomain2", change_membership),
            (opnum::NETR_RENAME_MACHINE_IN_DOMAIN_2, "NetrRenameMachineInDomain2", change_membership),
            (opnum::NETR_VALIDATE_NAME_2, "NetrValidateName2", only_local::<0>),
            (opnum::NETR_GET_JOINABLE_OUS_2, "NetrGetJoinableOUs2", only_local::<2>),
            (opnum::NETR_ADD_ALTERNATE_COMPUTER_NAME, "NetrAddAlternateComputerName", not_remote::<0>),
            (opnum::NETR_REMOVE_ALTERNATE_COMPUTER_NAME, "NetrRemoveAlternateComputerName", not_remote::<0>),
            (opnum::NETR_SET_PRIMARY_COMPUTER_NAME, "NetrSetPrimaryComputerName", not_remote::<0>),
            (opnum::NETR_ENUMERATE_COMPUTER_NAMES, "NetrEnumerateComputerNames", computer_names),
        ]
    }
}

/// NetrWkstaGetInfo (3.2.4.1).
async fn get_info(call: &Call<'_>, asked: WkstaGetInfo) -> Vec<u8> {
    let may = match asked.level {
        PUBLIC_LEVEL => true,
        ADMINISTRATOR_LEVEL | REDIRECTOR_LEVEL => call.is_administrator().await,
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

/// Refuses a call that is not used on the wire (3.2.4, opnums 12, 14 to 19 and 21), as Windows does, and one by
/// which a client would change the names or the domain of the server. Its results have `RESULTS` units of four bytes
/// before the status.
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

/// Refuses a call that only local callers may make (3.2.4.16, 3.2.4.17). A named pipe has none here.
async fn only_local<const RESULTS: usize>(_: &Call<'_>, (): ()) -> Vec<u8> {
    [vec![0; RESULTS * 4], wkssvc::REMOTE_DISABLED.to_le_bytes().to_vec()].concat()
}

/// NetrUnjoinDomain2 and NetrRenameMachineInDomain2 (3.2.4.14, 3.2.4.15). An administrator of the host ends its
/// membership or renames it, not a client.
async fn change_membership(call: &Call<'_>, (): ()) -> Vec<u8> {
    let status = match call.is_administrator().await {
        false => error::ACCESS_DENIED,
        true if call.server.domain().is_none() => wkssvc::SETUP_NOT_JOINED,
        true => error::NOT_SUPPORTED,
    };
    status.to_le_bytes().to_vec()
}

/// NetrUseAdd (3.2.4.7), which is not for remote callers.
async fn use_add(_: &Call<'_>, (): ()) -> Vec<u8> {
    // No index of a member, as in NetrWkstaTransportAdd.
    wkssvc::transport_add_response(None, wkssvc::CALL_NOT_IMPLEMENTED)
}

/// NetrUseGetInfo (3.2.4.8), which is not for remote callers.
async fn use_get_info(_: &Call<'_>, asked: UseGetInfo) -> Vec<u8> {
    wkssvc::use_info_response(asked.level, wkssvc::CALL_NOT_IMPLEMENTED)
}

/// NetrUseDel (3.2.4.9), which is not for remote callers.
async fn use_del(_: &Call<'_>, (): ()) -> Vec<u8> {
    wkssvc::CALL_NOT_IMPLEMENTED.to_le_bytes().to_vec()
}

/// NetrWorkstationStatisticsGet (3.2.4.11). The server makes no connections as an SMB client, so all counters are 0.
async fn statistics(call: &Call<'_>, asked: StatisticsGet) -> Vec<u8> {
    wkssvc::statistics_response(match asked {
        StatisticsGet { level: 1.., .. } => error::INVALID_LEVEL,
        StatisticsGet { options: 1.., .. } => error::INVALID_PARAMETER,
        _ if !call.is_administrator().await => error::ACCESS_DENIED,
        _ => error::SUCCESS,
    })
}

/// NetrWkstaUserGetInfo, which is not used on the wire (3.2.4, opnum 3). It describes the user at the console, and
/// there is none; or the domains that the computer browses besides its own, of which there are none either.
async fn user_get_info(call: &Call<'_>, asked: WkstaUserGetInfo) -> Vec<u8> {
    if asked.has_reserved {
        return wkssvc::use_info_response(asked.level, error::INVALID_PARAMETER);
    }
    if asked.level == wkssvc::OTHER_DOMAINS_LEVEL && call.has_account() {
        return wkssvc::other_domains_response();
    }
    wkssvc::use_info_response(asked.level, wkssvc::NO_SUCH_LOGON_SESSION)
}

/// NetrWkstaTransportAdd (3.2.4.5). SMB over TCP is enabled, and the host has no other transport.
async fn transport_add(call: &Call<'_>, asked: WkstaTransportAdd) -> Vec<u8> {
    let status = match &asked {
        WkstaTransportAdd { level: 1.., .. } => error::INVALID_LEVEL,
        _ if !call.is_administrator().await => error::ACCESS_DENIED,
        WkstaTransportAdd { name: Some(name), .. } if name.eq_ignore_ascii_case(TRANSPORT_NAME) => error::SUCCESS,
        _ => error::INVALID_PARAMETER,
    };
    // wkti0_transport_name is the third member.
    let member = if status == error::INVALID_PARAMETER { 2 } else { 0 };
    wkssvc::transport_add_response(asked.wants_member.then_some(member), status)
}

/// NetrWkstaTransportDel (3.2.4.6). A server that does not support it returns success for a valid ForceLevel.
async fn transport_del(call: &Call<'_>, asked: WkstaTransportDel) -> Vec<u8> {
    let status = match asked {
        WkstaTransportDel { force: 3.., .. } => error::INVALID_PARAMETER,
        _ if !call.is_administrator().await => error::ACCESS_DENIED,
        _ => error::SUCCESS,
    };
    status.to_le_bytes().to_vec()
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
            let of_level = |level: u32, more: &[u32]| {
                let mut out = Encoder::default();
                out.null();
                [&[level], more].concat().into_iter().for_each(|number| out.u32(number));
                out.into_bytes()
            };
            let console = pipe.call(opnum::NETR_WKSTA_USER_GET_INFO, &of_level(1, &[]));
            assert_eq!(last(&console), wkssvc::NO_SUCH_LOGON_SESSION);
            for (level, options, expected) in
                [(0, 0, administrator), (1, 0, error::INVALID_LEVEL), (0, 1, error::INVALID_PARAMETER)]
            {
                let statistics = pipe.call(opnum::NETR_WORKSTATION_STATISTICS_GET, &of_level(0, &[level, options]));
                let size = if expected == ok { 4 + 4 + 13 * 8 + 27 * 4 + 4 } else { 8 };
                assert_eq!((last(&statistics), statistics.len()), (expected, size), "{level} {options}");
            }
            let other = |name: &str| {
                let mut out = Encoder::default();
                [0, 0, 0, 0].into_iter().for_each(|number| out.u32(number));
                out.pointer();
                [0, 0].into_iter().for_each(|number| out.u32(number));
                out.string(name);
                out.pointer();
                out.u32(0);
                out.into_bytes()
            };
            for (name, expected) in [(TRANSPORT_NAME, ok), ("\\Device\\other", error::INVALID_PARAMETER)] {
                let added = pipe.call(opnum::NETR_WKSTA_TRANSPORT_ADD, &other(name));
                assert_eq!(last(&added), if administrator == ok { expected } else { denied }, "{name}");
            }
            for (force, expected) in [(2, administrator), (3, error::INVALID_PARAMETER)] {
                let removed = pipe.call(opnum::NETR_WKSTA_TRANSPORT_DEL, &of_level(0, &[force]));
                assert_eq!(last(&removed), expected, "{force}");
            }
            let not_joined = if administrator == ok { wkssvc::SETUP_NOT_JOINED } else { denied };
            assert_eq!(last(&pipe.call(opnum::NETR_UNJOIN_DOMAIN_2, &[])), not_joined);
            assert_eq!(last(&pipe.call(opnum::NETR_RENAME_MACHINE_IN_DOMAIN_2, &[])), not_joined);
            assert_eq!(last(&pipe.call(opnum::NETR_VALIDATE_NAME_2, &[])), wkssvc::REMOTE_DISABLED);
            for call in [opnum::NETR_WKSTA_USER_ENUM, opnum::NETR_WKSTA_TRANSPORT_ENUM] {
                assert_eq!(last(&pipe.call(call, &listing(&[], 7, 0, None))), error::INVALID_LEVEL);
            }
        }
    }
}
