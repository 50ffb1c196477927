//! Tests that each parameter of the table has an effect on the configuration.

use super::*;
use crate::table::{Kind, Parameter, Scope, Status};

/// Settings of `[global]` and of the share with which other parameters have an effect.
const BASES: [(&str, &str); 5] = [
    (
        "server role = member server\nworkgroup = DOM\nrealm = DOM.TEST\nlog file = /l\n\
         passdb backend = smbpasswd ldapsam:ldap://a\nldap suffix = dc=a\n\
         kerberos method = dedicated keytab\ndedicated keytab file = /k\n\
         frevo:netbios name service = yes\n\
         frevo:openid issuer = https://a\nfrevo:openid client id = a\n",
        "vfs objects = acl_xattr streams_xattr shadow_copy2 recycle catia full_audit\nguest ok = yes\n\
         wide links = yes\nvalid users = ann a+b\nshadow:snapprefix = auto\n",
    ),
    ("", "vfs objects = fruit catia streams_xattr\nfruit:resource = stream\n"),
    ("", "printable = yes\n"),
    ("", "printable = yes\nprinting = bsd\n"),
    ("allow insecure wide links = yes\n", "vfs objects = worm glusterfs\n"),
];

/// Values of free text, each of which some parameter accepts.
const TEXTS: &[&str] = &[
    "other",
    "ann",
    "staff",
    "/m",
    "lo",
    "7",
    "10.0.0.1",
    "+",
    "worm",
    "always",
    "syslog",
    "user.x.",
    "%Y",
    "30d",
    "close",
    "local3",
    "debug",
    "0x22:0xa8",
    "smbpasswd",
    "lprng",
    "SO_KEEPALIVE",
    "AES-256-CCM",
    "HMAC-SHA256",
    r"\server\share",
    "https://b",
    "openid",
];

fn values(kind: Kind) -> Vec<String> {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    match kind {
        Kind::Bool => texts(&["yes", "no"]),
        Kind::Integer(least, most) => {
            [0, 1, 2, 7, 5000].map(|number: i64| number.clamp(least, most).to_string()).into()
        }
        Kind::Bytes(least, most) => [0, 1 << 30].map(|number: u64| number.clamp(least, most).to_string()).into(),
        Kind::Octal => texts(&["0711"]),
        Kind::Choice(choices) => choices.iter().map(|spellings| spellings[0].to_owned()).collect(),
        Kind::List | Kind::Patterns | Kind::Text | Kind::Path => texts(TEXTS),
    }
}

/// Returns the configuration as text; `None` if it is invalid.
fn built(global: &str, share: &str) -> Option<String> {
    let text = format!("[global]\n{global}[x]\npath = /\n{share}");
    let loaded = read_text(text.as_bytes()).ok()?;
    Some(format!("{:?} {:?}", loaded.policy, loaded.daemon))
}

/// Whether some value of `parameter` changes the configuration. An invalid combination with another parameter is a
/// change, unless it may be due to the text itself.
fn has_an_effect(parameter: &Parameter) -> bool {
    BASES.iter().any(|(global, share)| {
        let before = built(global, share).expect("a valid configuration");
        values(parameter.kind).iter().any(|value| {
            let line = format!("{} = {value}\n", parameter.name);
            let after = match parameter.scope {
                Scope::Global => built(&format!("{global}{line}"), share),
                Scope::Share => built(global, &format!("{share}{line}")),
            };
            after.map_or(!parameter.may_be_empty(), |after| after != before)
        })
    })
}

#[test]
fn every_served_parameter_changes_the_configuration() {
    let served = table::all().filter(|parameter| parameter.status == Status::Served);
    let read = served.filter(|parameter| !READ_EARLIER.contains(&parameter.name));
    let without: Vec<_> = read.filter(|parameter| !has_an_effect(parameter)).map(|parameter| parameter.name).collect();
    assert!(without.is_empty(), "parameters without effect: {without:?}");
}

#[test]
fn no_other_parameter_changes_the_configuration() {
    let other = table::all().filter(|parameter| parameter.status != Status::Served);
    let with: Vec<_> = other.filter(|parameter| has_an_effect(parameter)).map(|parameter| parameter.name).collect();
    assert!(with.is_empty(), "parameters with an effect: {with:?}");
}
