//! The settings of `frevo:openid`, with which users log on to the console through an OpenID Connect issuer. Only the
//! console uses them; the server reads them so that a wrong value is found.

use std::net::IpAddr;
use std::path::PathBuf;

use super::problem::{Code, Place, error, warning};
use super::reader::{Reader, ValueReader};
use super::table::openid::{CLIENT, CONSOLE_URL, ISSUER, SCOPES, SECRET_FILE, USER_CLAIM};

/// The settings of a client of an OpenID Connect issuer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenId {
    /// `frevo:openid issuer`: a URL with https, or with http and a loopback host.
    pub issuer: String,
    /// `frevo:openid client id`.
    pub client: String,
    /// `frevo:openid client secret file`; `None` for a public client.
    pub secret_file: Option<PathBuf>,
    /// The line of that parameter.
    pub secret_place: Option<Place>,
    /// `frevo:openid user claim`.
    pub user_claim: String,
    /// `frevo:openid scopes`; `openid` is one of them.
    pub scopes: Vec<String>,
    /// `frevo:console url`, which ends in a slash; `None` if it is the URL by which a browser calls the console.
    pub console_url: Option<String>,
}

/// Reads the settings; `None` without an issuer.
pub(super) fn read(reader: &Reader<'_>) -> Option<OpenId> {
    let value = |parameter| reader.value(parameter);
    let issuer = value(&ISSUER).normalized();
    let console_url = console_url(value(&CONSOLE_URL));
    if issuer.is_empty() {
        for parameter in [&CLIENT, &SECRET_FILE, &USER_CLAIM, &SCOPES].map(value) {
            if parameter.is_set() {
                let message = format!("`{}` has no effect without `frevo:openid issuer`", parameter.name());
                let remedy = "add `frevo:openid issuer = URL`, or remove the line";
                parameter.report(warning(Code::Contradiction, message).remedy(remedy));
            }
        }
        return None;
    }
    check_url(value(&ISSUER), &issuer);
    let client = value(&CLIENT).normalized();
    if client.is_empty() {
        let message = format!("`frevo:openid issuer = {issuer}` needs `frevo:openid client id`");
        let remedy = "add `frevo:openid client id = NAME`, the name with which the console is registered at the issuer";
        value(&ISSUER).report(error(Code::BadValue, message).remedy(remedy));
    }
    let secret_file = Some(PathBuf::from(value(&SECRET_FILE).normalized())).filter(|it| !it.as_os_str().is_empty());
    if let Some(path) = secret_file.as_ref().filter(|path| !path.is_absolute()) {
        let shown = path.display().to_string();
        value(&SECRET_FILE).bad_value(&shown, "the absolute path of a file with the secret, not the secret itself");
    }
    let user_claim = value(&USER_CLAIM).normalized();
    if user_claim.is_empty() || user_claim.contains(|it: char| it.is_whitespace() || it.is_control()) {
        value(&USER_CLAIM).bad_value(&user_claim, "the name of a claim, such as preferred_username");
    }
    let scopes = value(&SCOPES).plain_list();
    if !scopes.iter().any(|scope| scope == "openid") {
        value(&SCOPES).bad_value(&scopes.join(" "), "a list with openid, such as `openid profile`");
    }
    let secret_place = value(&SECRET_FILE).place();
    Some(OpenId { issuer, client, secret_file, secret_place, user_claim, scopes, console_url })
}

fn console_url(value: ValueReader<'_>) -> Option<String> {
    let url = value.normalized();
    if url.is_empty() {
        return None;
    }
    check_url(value, &url);
    Some(if url.ends_with('/') { url } else { url + "/" })
}

fn check_url(value: ValueReader<'_>, url: &str) {
    if !is_protected(url) {
        value.bad_value(url, "https://HOST[:PORT]/PATH; http only with localhost, 127.0.0.1 or [::1]; no `?` and `#`");
    }
}

/// Returns whether `url` is one with https, or with http of a loopback host, and without user, query and fragment.
fn is_protected(url: &str) -> bool {
    let (rest, is_secure) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (rest, true),
        (_, Some(rest)) => (rest, false),
        _ => return false,
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let is_plain = url.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(&byte));
    let Some((host, port)) = split(authority) else { return false };
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let is_name = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    let is_loopback = host.eq_ignore_ascii_case("localhost") || address.as_ref().is_ok_and(IpAddr::is_loopback);
    let is_host = address.is_ok() || is_name;
    is_plain && is_host && port.is_none_or(|port| port.parse::<u16>().is_ok()) && (is_secure || is_loopback)
}

/// Splits an authority into the host and the port. Brackets belong to the host.
fn split(authority: &str) -> Option<(&str, Option<&str>)> {
    if authority.starts_with('[') {
        let end = authority.find(']')? + 1;
        let (host, rest) = authority.split_at(end);
        return match rest {
            "" => Some((host, None)),
            rest => rest.strip_prefix(':').map(|port| (host, Some(port))),
        };
    }
    Some(authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_protected() {
        for url in [
            "https://id.example",
            "https://id.example:8443/realms/office",
            "https://[2001:db8::1]/",
            "http://localhost:8080",
            "http://127.0.0.9/x",
            "http://[::1]:80/x",
        ] {
            assert!(is_protected(url), "{url}");
        }
        for url in [
            "",
            "id.example",
            "http://id.example",
            "http://localhost.example",
            "http://10.0.0.1",
            "ftp://id.example",
            "https://",
            "https:///x",
            "https://ann@id.example",
            "https://id.example?x=1",
            "https://id.example/#x",
            "https://id example",
            "https://id.example:port",
            "https://[::1",
            "https://id.example/\u{e4}",
        ] {
            assert!(!is_protected(url), "{url}");
        }
    }
}
