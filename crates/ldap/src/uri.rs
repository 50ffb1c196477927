//! Addresses of LDAP servers: `ldap://a`, `ldaps://b:637` or `ldapi://%2Frun%2Fldapi` (RFC 4516, without the parts
//! after the host; `ldapi` is an extension of OpenLDAP). A list of them is in the format of Samba's
//! `passdb backend = ldapsam:"..."`.

use std::fmt;

use anyhow::{Result, bail, ensure};

/// The default socket of OpenLDAP's server.
const DEFAULT_SOCKET: &str = "/var/run/slapd/ldapi";

/// One server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Uri {
    /// Host and port.
    Tcp {
        /// A name or an address.
        host: String,
        /// The port.
        port: u16,
        /// Whether TLS is used from the start.
        tls: bool,
    },
    /// A UNIX socket.
    Local(String),
}

impl Uri {
    /// Parses a URI; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Uri> {
        let Some((scheme, rest)) = text.split_once("://") else {
            bail!("{text:?} is not an LDAP URI; write ldap://host, ldaps://host:636 or ldapi://%2Frun%2Fldapi");
        };
        let place = rest.split('/').next().unwrap_or_default();
        ensure!(
            rest[place.len()..].trim_matches('/').is_empty(),
            "{text:?} has more than a server; set the search base with `ldap suffix`"
        );
        match scheme.to_ascii_lowercase().as_str() {
            "ldap" => tcp(text, place, false),
            "ldaps" => tcp(text, place, true),
            "ldapi" if place.is_empty() => Ok(Uri::Local(DEFAULT_SOCKET.into())),
            "ldapi" => Ok(Uri::Local(
                percent_decoded(place).map_or_else(|| bail!("{text:?} has an invalid percent encoding"), Ok)?,
            )),
            other => bail!("{text:?} has the scheme {other:?}; use ldap, ldaps or ldapi"),
        }
    }

    /// Returns whether TLS may be used with this server; `start_tls` says whether plain connections are upgraded.
    pub fn may_have_tls(&self, start_tls: bool) -> bool {
        matches!(self, Uri::Tcp { tls, .. } if *tls || start_tls)
    }

    /// Parses a list separated by white space. An empty list means the server on this host.
    pub fn list(text: &str) -> Result<Vec<Uri>> {
        let uris: Vec<Uri> = text.split_whitespace().map(Uri::parse).collect::<Result<_>>()?;
        Ok(if uris.is_empty() { vec![Uri::Tcp { host: "localhost".into(), port: 389, tls: false }] } else { uris })
    }
}

fn tcp(text: &str, place: &str, tls: bool) -> Result<Uri> {
    let usual = if tls { 636 } else { 389 };
    let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':').or(rest.is_empty().then_some(""))),
        None => place.split_once(':').map_or((place, Some("")), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        Some("") => usual,
        Some(digits) => digits.parse().ok().filter(|port| *port != 0).unwrap_or(0),
        None => 0,
    };
    ensure!(port != 0, "{text:?} has an invalid port");
    let host = if host.is_empty() { "localhost" } else { host }.to_owned();
    Ok(Uri::Tcp { host, port, tls })
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut parts = text.split('%');
    bytes.extend_from_slice(parts.next()?.as_bytes());
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Uri::Local(path) => write!(f, "ldapi://{}", path.replace('/', "%2F")),
            Uri::Tcp { host, port, tls } => {
                let scheme = if *tls { "ldaps" } else { "ldap" };
                if host.contains(':') {
                    write!(f, "{scheme}://[{host}]:{port}")
                } else {
                    write!(f, "{scheme}://{host}:{port}")
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_parsed() {
        let check = |text: &str, shown: &str| assert_eq!(Uri::parse(text).unwrap().to_string(), shown, "{text}");
        check("ldap://a", "ldap://a:389");
        check("LDAPS://a.example:700/", "ldaps://a.example:700");
        check("ldaps://", "ldaps://localhost:636");
        check("ldap://[::1]", "ldap://[::1]:389");
        check("ldap://[::1]:390", "ldap://[::1]:390");
        check("ldapi://%2Ftmp%2fs%20x", "ldapi://%2Ftmp%2Fs x");
        check("ldapi:///", "ldapi://%2Fvar%2Frun%2Fslapd%2Fldapi");
        let bad = [
            "a",
            "http://a",
            "ldap://a:0",
            "ldap://a:x",
            "ldap://[::1",
            "ldap://[::1]x",
            "ldap://a/dc=x",
            "ldapi://%2",
        ];
        for text in bad {
            assert!(Uri::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_list_keeps_its_order() {
        let shown = |text| Uri::list(text).unwrap().iter().map(Uri::to_string).collect::<Vec<_>>();
        assert_eq!(shown("ldap://b  ldap://a"), ["ldap://b:389", "ldap://a:389"]);
        assert_eq!(shown(""), ["ldap://localhost:389"]);
        assert!(Uri::list("ldap://a b").is_err());
    }
}
