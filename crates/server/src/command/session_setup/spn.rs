//! Checks the server's name in an NTLM logon (MsvAvTargetName, [MS-NLMP] 3.2.5.1.2). A proof for another server that an
//! attacker relays to this one contains the other server's name.

use std::net::IpAddr;

use proto::status::Status;

use crate::error::{Error, Result};
use crate::policy::{Policy, SpnCheck};

/// Checks the SPN that a client sent with a valid proof over a connection to `local`.
pub(super) fn check(spn: Option<&str>, local: IpAddr, policy: &Policy) -> Result<()> {
    let refused = |why: String| Err(Error::because(Status::ACCESS_DENIED, why));
    match (policy.spn_check, spn) {
        (SpnCheck::Off, _) | (SpnCheck::IfSent, None) => Ok(()),
        (SpnCheck::Required, None) => {
            refused("the client sent no server name, which `frevo:spn check` requires".into())
        }
        (_, Some(spn)) if is_own(spn, local, policy) => Ok(()),
        (_, Some(spn)) => refused(format!(
            "the client logs on to {spn:?}, which is not a name of this server: if the logon is not relayed, add the \
             name to `frevo:spn names`"
        )),
    }
}

fn is_own(spn: &str, local: IpAddr, policy: &Policy) -> bool {
    let Some((service, host)) = spn.split_once('/') else { return false };
    if !["cifs", "host"].iter().any(|known| service.eq_ignore_ascii_case(known)) {
        return false;
    }
    // A domain may follow, and a port if it is not 445.
    let host = host.split('/').next().unwrap_or_default();
    let names = policy.target_names();
    let own = [&names.netbios_computer, &names.dns_computer].into_iter().chain(&policy.spn_names);
    let is_name = |host: &str| own.clone().any(|name| host.eq_ignore_ascii_case(name));
    let is_address = |host: &str| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical() == local.to_canonical())
    };
    let without_port = host.rsplit_once(':').map_or(host, |(name, _)| name);
    [host, without_port].into_iter().any(|host| is_name(host) || is_address(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_levels() {
        let local = IpAddr::from([192, 0, 2, 1]);
        let levels = [SpnCheck::Off, SpnCheck::IfSent, SpnCheck::Required];
        for (spn, expected) in [
            (Some("cifs/SRV"), [true; 3]),
            (Some("cifs/srv"), [true; 3]),
            (Some("HOST/alias.example"), [true; 3]),
            (Some("cifs/192.0.2.1"), [true; 3]),
            (Some("cifs/srv:4450"), [true; 3]),
            (Some("cifs/192.0.2.2"), [true, false, false]),
            (Some("cifs/attacker"), [true, false, false]),
            (Some("HTTP/srv"), [true, false, false]),
            (Some("srv"), [true, false, false]),
            (None, [true, true, false]),
        ] {
            let found = levels.map(|spn_check| {
                let spn_names = vec!["alias.example".to_owned()];
                let policy = Policy { netbios_name: "SRV".into(), spn_check, spn_names, ..Policy::default() };
                check(spn, local, &policy).is_ok()
            });
            assert_eq!(found, expected, "{spn:?}");
        }
    }
}
