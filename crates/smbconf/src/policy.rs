//! Stage two, the protocol's part: a resolved configuration -> [`server::policy::Policy`].

use std::sync::Arc;
use std::time::Duration;

use server::policy::hosts::HostList;
use server::policy::{
    Encryption, EncryptionAlgorithm, Guest, HostAccess, Limits, MapToGuest, Policy, Protocol, Signing,
    SigningAlgorithm, SpnCheck, fold,
};

use super::homes::Homes;
use super::problem::{Code, Problem, error, warning};
use super::reader::Reader;
use super::resolve::Resolved;
use super::share;
use super::variables::ServerVariables;
use super::{lists, membership};

/// Builds the policy. Problems are added to the reader's; if one of them is an error the result is not used.
pub(super) fn build(global: &Reader<'_>, resolved: &Resolved) -> Policy {
    let variables = global.variables;
    let (server_min_protocol, server_max_protocol) = protocols(global);
    let mut policy = Policy {
        netbios_name: variables.netbios_name.clone(),
        workgroup: variables.workgroup.clone(),
        membership: membership::build(global),
        server_string: global.shown_text("server string"),
        server_min_protocol,
        server_max_protocol,
        server_signing: signing(global),
        server_smb_encrypt: encryption(global),
        smb2_max_read: transfer(global, "smb2 max read"),
        smb2_max_write: transfer(global, "smb2 max write"),
        smb2_max_trans: transfer(global, "smb2 max trans"),
        smb2_leases: global.boolean("smb2 leases"),
        // A pause of zero would never yield the processor.
        lock_spin_time: Duration::from_millis(global.number("lock spin time").unwrap_or(200).max(1)),
        lock_sequence_checking: !global.boolean("smb2 disable lock sequence checking"),
        smb3_directory_leases: global.choice("smb3 directory leases") != "no",
        smb2_max_credits: global.number("smb2 max credits").unwrap_or(8192),
        server_smb3_encryption_algorithms: encryption_algorithms(global),
        server_smb3_signing_algorithms: signing_algorithms(global),
        server_multi_channel_support: global.boolean("server multi channel support"),
        hosts: hosts(global),
        ntlm: global.choice("ntlm auth") != "disabled",
        spn_check: match global.choice("frevo:spn check").as_str() {
            "required" => SpnCheck::Required,
            "if sent" => SpnCheck::IfSent,
            _ => SpnCheck::Off,
        },
        spn_names: global.list("frevo:spn names"),
        min_domain_uid: global.number("min domain uid").unwrap_or(u32::MAX),
        map_to_guest: map_to_guest(global),
        guest: None,
        restrict_anonymous: global.number("restrict anonymous").unwrap_or(2),
        change_notify: global.boolean("change notify"),
        kernel_change_notify: global.boolean("kernel change notify"),
        utc_offset: accounts::when::utc_offset,
        homes: None,
        username_map: None,
        shares: Default::default(),
        limits: limits(global),
    };
    for section in &resolved.shares {
        let name = section.name.clone();
        let variables = ServerVariables {
            names: variables.names,
            netbios_name: variables.netbios_name.clone(),
            workgroup: variables.workgroup.clone(),
            share: Some(name.clone()),
        };
        let reader = Reader {
            global: global.global,
            share: Some(&section.settings),
            variables: &variables,
            problems: global.problems,
        };
        if fold(&name) == "homes" {
            policy.homes = Homes::new(&reader, section, &policy).map(|homes| Arc::new(homes) as _);
        } else if let Some(share) = share::build(&reader, section, &policy) {
            policy.shares.insert(fold(&name), Arc::new(share));
        }
    }
    policy.guest = guest(global, &policy);
    policy
}

fn protocols(global: &Reader<'_>) -> (Protocol, Protocol) {
    let least = match global.choice("server min protocol").as_str() {
        "NT1" => {
            let problem = warning(Code::NotServed, "SMB 1 and older are not served: the oldest dialect is SMB2_02");
            global.report("server min protocol", problem.remedy("write SMB2_02"));
            Protocol::Smb2_02
        }
        other => dialect(other).unwrap_or(Protocol::Smb2_02),
    };
    let most = match global.choice("server max protocol").as_str() {
        "NT1" => {
            global.bad_value("server max protocol", "NT1", "SMB2_02, SMB2_10, SMB3_00, SMB3_02, SMB3_11");
            Protocol::Smb3_11
        }
        other => dialect(other).unwrap_or(Protocol::Smb3_11),
    };
    if least > most {
        let problem = error(Code::Contradiction, "`server min protocol` is newer than `server max protocol`");
        let name = if global.is_set("server min protocol") { "server min protocol" } else { "server max protocol" };
        global.report(name, problem.remedy("no client could connect: lower the minimum or raise the maximum"));
    }
    (least, most)
}

fn dialect(name: &str) -> Option<Protocol> {
    match name {
        "SMB2_02" => Some(Protocol::Smb2_02),
        "SMB2_10" => Some(Protocol::Smb2_10),
        "SMB3_00" => Some(Protocol::Smb3_00),
        "SMB3_02" => Some(Protocol::Smb3_02),
        "SMB3_11" => Some(Protocol::Smb3_11),
        _ => None,
    }
}

fn signing(global: &Reader<'_>) -> Signing {
    match global.choice("server signing").as_str() {
        "required" => Signing::Required,
        // [MS-SMB2] 3.3.5.5 does not allow a server to refuse signing.
        _ => Signing::Enabled,
    }
}

/// `server smb encrypt` of the section.
pub(super) fn encryption(reader: &Reader<'_>) -> Encryption {
    match reader.choice("server smb encrypt").as_str() {
        "off" => Encryption::Off,
        "desired" => Encryption::Desired,
        "required" => Encryption::Required,
        _ => Encryption::Enabled,
    }
}

fn transfer(global: &Reader<'_>, name: &str) -> u32 {
    u32::try_from(global.bytes(name)).unwrap_or(8_388_608)
}

fn encryption_algorithms(global: &Reader<'_>) -> Vec<EncryptionAlgorithm> {
    let known = [
        ("AES-128-GCM", EncryptionAlgorithm::Aes128Gcm),
        ("AES-128-CCM", EncryptionAlgorithm::Aes128Ccm),
        ("AES-256-GCM", EncryptionAlgorithm::Aes256Gcm),
        ("AES-256-CCM", EncryptionAlgorithm::Aes256Ccm),
    ];
    algorithms(global, "server smb3 encryption algorithms", &known)
}

fn signing_algorithms(global: &Reader<'_>) -> Vec<SigningAlgorithm> {
    let known = [
        ("AES-128-GMAC", SigningAlgorithm::Aes128Gmac),
        ("AES-128-CMAC", SigningAlgorithm::Aes128Cmac),
        ("HMAC-SHA256", SigningAlgorithm::HmacSha256),
    ];
    algorithms(global, "server smb3 signing algorithms", &known)
}

/// Returns the selected algorithms in order. As in Samba, `-NAME` removes one from the full list and `+NAME` appends
/// one.
fn algorithms<T: Copy + PartialEq>(global: &Reader<'_>, name: &str, known: &[(&str, T)]) -> Vec<T> {
    let elements = global.list(name);
    let changes = elements.first().is_some_and(|first| first.starts_with(['+', '-']));
    let mut chosen: Vec<T> = if changes { known.iter().map(|(_, algorithm)| *algorithm).collect() } else { Vec::new() };
    for element in &elements {
        let plain = if changes { element.trim_start_matches(['+', '-']) } else { element };
        match known.iter().find(|(known, _)| known.eq_ignore_ascii_case(plain)) {
            Some((_, algorithm)) => {
                chosen.retain(|other| other != algorithm);
                if !element.starts_with('-') {
                    chosen.push(*algorithm);
                }
            }
            None => {
                let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
                global.bad_value(name, element, &names.join(", "));
            }
        }
    }
    if chosen.is_empty() {
        let problem = error(Code::BadValue, format!("`{name}` leaves no algorithm"));
        global.report(name, problem.remedy("name at least one, or remove the line"));
    }
    chosen
}

/// `hosts allow` and `hosts deny` of the section.
pub(super) fn hosts(reader: &Reader<'_>) -> HostAccess {
    HostAccess { allow: host_list(reader, "hosts allow"), deny: host_list(reader, "hosts deny") }
}

fn host_list(reader: &Reader<'_>, name: &str) -> HostList {
    lists::hosts(&reader.list(name)).unwrap_or_else(|wrong| {
        let allowed = "addresses (10.0.0.5), networks (10.0.0.0/8, 10.0.0.0/255.0.0.0, 10., fd00::/8), localhost, ALL, \
                       and EXCEPT before exceptions; host names are not supported";
        reader.bad_value(name, &wrong, allowed);
        HostList::default()
    })
}

fn map_to_guest(global: &Reader<'_>) -> MapToGuest {
    match global.choice("map to guest").as_str() {
        "Bad User" => MapToGuest::BadUser,
        "Bad Password" => MapToGuest::BadPassword,
        "Bad Uid" => MapToGuest::BadUid,
        _ => MapToGuest::Never,
    }
}

fn limits(global: &Reader<'_>) -> Limits {
    let mut limits = Limits::default();
    if let Some(connections) = global.number("max smbd processes").filter(|number: &usize| *number > 0) {
        limits.connections = connections;
    }
    if let Some(opens) = global.number("max open files").filter(|number: &usize| *number > 0) {
        limits.opens_per_session = opens;
    }
    limits.descriptor_bytes = usize::try_from(global.bytes("frevo:acl cache")).unwrap_or(usize::MAX);
    limits
}

/// Returns the guest, if the configuration allows guests.
fn guest(global: &Reader<'_>, policy: &Policy) -> Option<Guest> {
    let name = global.text("guest account");
    if policy.map_to_guest == MapToGuest::Never && !policy.shares.values().any(|share| share.access.guest_ok) {
        return None;
    }
    match global.variables.names.user(&name) {
        Ok(Some(identity)) => Some(Guest { name, identity }),
        Ok(None) => {
            let problem =
                warning(Code::UnknownName, format!("the UNIX user `{name}` does not exist: guests are refused"));
            global.report("guest account", problem.remedy("set `guest account` to an existing user of this host"));
            None
        }
        Err(why) => {
            global.report("guest account", unanswered(&name, &why));
            None
        }
    }
}

/// Returns the problem of a failed look-up in the host's user database.
pub(super) fn unanswered(name: &str, why: &str) -> Problem {
    error(Code::UnknownName, format!("cannot look up `{name}`: {why}"))
        .remedy("check the name service of this host (nsswitch.conf)")
}
