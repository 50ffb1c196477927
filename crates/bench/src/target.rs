//! The address of a measured server: `smb://[domain;]user[:password]@host[:port]/share`.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use client::Credentials;

/// The environment variable for the password, which keeps it out of the process list.
pub const PASSWORD: &str = "FREVO_BENCH_PASSWORD";

/// A share on a server, and the user that logs on.
#[derive(Clone, PartialEq)]
pub struct Target {
    /// The user's domain; may be empty.
    pub domain: String,
    /// The user.
    pub user: String,
    /// The password, if the address contains one.
    pub password: Option<String>,
    /// The host's name or address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The share.
    pub share: String,
}

impl Target {
    /// Returns the credentials from the address. The password is taken from the environment if the address has none.
    pub fn credentials(&self) -> Result<Credentials> {
        let from_environment = || std::env::var(PASSWORD).ok();
        let password = self.password.clone().or_else(from_environment).with_context(|| {
            format!("{self} has no password: write smb://user:password@..., or set the variable {PASSWORD}")
        })?;
        Ok(Credentials::Password { user: self.user.clone(), domain: self.domain.clone(), password })
    }
}

impl FromStr for Target {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Target> {
        const FORM: &str = "write smb://user:password@host:port/share";
        let rest =
            text.strip_prefix("smb://").with_context(|| format!("'{text}' does not begin with smb://: {FORM}"))?;
        let (authority, share) = rest.split_once('/').with_context(|| format!("'{text}' has no share: {FORM}"))?;
        let (who, place) = authority.rsplit_once('@').with_context(|| format!("'{text}' has no user: {FORM}"))?;
        let (who, password) = match who.split_once(':') {
            Some((who, password)) => (who, Some(decode(password)?)),
            None => (who, None),
        };
        let (domain, user) = who.split_once(';').unwrap_or(("", who));
        let (host, port) = host_and_port(place)?;
        let share = decode(share.trim_end_matches('/'))?;
        ensure!(!share.is_empty(), "'{text}' has no share: {FORM}");
        ensure!(!share.contains('/'), "'{text}' names a directory: give only the share");
        ensure!(!host.is_empty(), "'{text}' has no host: {FORM}");
        ensure!(!user.is_empty(), "'{text}' has no user: {FORM}");
        Ok(Target { domain: decode(domain)?, user: decode(user)?, password, host, port, share })
    }
}

fn host_and_port(place: &str) -> Result<(String, u16)> {
    let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => place.rsplit_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        Some(port) => port.parse().with_context(|| format!("'{port}' is not a port: use 1 to 65535"))?,
        None => 445,
    };
    Ok((host.to_owned(), port))
}

/// Undoes percent-encoding (RFC 3986 2.1).
fn decode(text: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = tail.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let value = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        bytes.push(value.with_context(|| format!("'%' in '{text}' is not followed by two hexadecimal digits"))?);
        rest = &tail[2..];
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(_) => bail!("'{text}' is not UTF-8 after percent-decoding"),
    }
}

/// Formats the address without the password.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("smb://")?;
        if !self.domain.is_empty() {
            write!(f, "{};", self.domain)?;
        }
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        write!(f, "{}@{host}:{}/{}", self.user, self.port, self.share)
    }
}

/// Formats the address without the password.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        let check = |text: &str, shown: &str, password: Option<&str>| {
            let target: Target = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((target.to_string().as_str(), target.password.as_deref()), (shown, password), "{text}");
        };
        check("smb://anna@server/data", "smb://anna@server:445/data", None);
        check("smb://anna:p%40ss:1@[::1]:4450/my%20data/", "smb://anna@[::1]:4450/my data", Some("p@ss:1"));
        check("smb://CORP;anna:x@10.0.0.1:1445/data", "smb://CORP;anna@10.0.0.1:1445/data", Some("x"));
    }

    #[test]
    fn errors_in_addresses_are_reported() {
        let check = |text: &str, expected: &str| {
            let said = text.parse::<Target>().expect_err(text).to_string();
            assert!(said.contains(expected), "{text}: {said}");
        };
        check("//server/data", "does not begin with smb://");
        check("smb://anna@server", "has no share");
        check("smb://anna@server/", "has no share");
        check("smb://server/data", "has no user");
        check("smb://anna@server:99999/data", "'99999' is not a port");
        check("smb://anna@server/a/b", "names a directory");
        check("smb://an%zz@server/a", "two hexadecimal digits");
    }
}
