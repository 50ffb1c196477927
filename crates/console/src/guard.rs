//! Where a request comes from. A web page elsewhere can have a browser send requests here, with the cookie if the
//! browser permits it, and can have its own host name resolve to this host's address (DNS rebinding). Such requests are
//! refused before anything else happens.

use std::net::IpAddr;

use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use hyper::http::uri::{Authority, Uri};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The hosts that requests may name.
#[derive(Clone, Default, Debug)]
pub struct Hosts {
    /// Whether every address may be named, as on an address other than that of the loopback interface. An address in
    /// the URL is not resolved, so nobody else chooses where the request goes.
    pub any_address: bool,
    /// Names, without ports.
    pub names: Vec<String>,
}

impl Hosts {
    /// Returns the host of a request if it may be named.
    pub(crate) fn permitted(&self, headers: &HeaderMap) -> Option<Authority> {
        let mut hosts = headers.get_all(HOST).iter();
        let (host, None) = (hosts.next()?, hosts.next()) else { return None };
        let authority = Authority::try_from(host.as_bytes()).ok().filter(|host| !host.as_str().contains('@'))?;
        let name = authority.host();
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let is_permitted = match address {
            Ok(address) => address.is_loopback() || self.any_address,
            Err(_) => {
                let is = |known: &str| name.eq_ignore_ascii_case(known);
                is("localhost") || self.names.iter().any(|known| is(known))
            }
        };
        is_permitted.then_some(authority)
    }
}

/// Returns whether a request comes from the page itself, if its browser says where from.
pub(crate) fn is_own_page(headers: &HeaderMap) -> bool {
    headers.get(FETCH_SITE).is_none_or(|site| site == "same-origin" || site == "none")
}

/// Returns whether a change comes from the page itself. Browsers name the origin of each POST.
pub(crate) fn is_own_change(headers: &HeaderMap, host: &Authority) -> bool {
    let mut origins = headers.get_all(ORIGIN).iter();
    let (Some(origin), None) = (origins.next(), origins.next()) else { return false };
    let site = headers.get(FETCH_SITE).is_none_or(|site: &HeaderValue| site == "same-origin");
    let origin = Uri::try_from(origin.as_bytes()).ok();
    let is_web = |uri: &Uri| uri.scheme_str().is_some_and(|scheme| scheme == "http" || scheme == "https");
    // A proxy may have removed TLS, so the scheme is not compared.
    site && origin.filter(is_web).is_some_and(|origin| origin.authority() == Some(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        let pair = |(name, value): &(HeaderName, &str)| (name.clone(), HeaderValue::from_str(value).expect("a value"));
        let mut headers = HeaderMap::new();
        pairs.iter().map(pair).for_each(|(name, value)| _ = headers.append(name, value));
        headers
    }

    #[test]
    fn only_known_hosts_are_named() {
        let own = Hosts { any_address: false, names: vec!["nas.example".into()] };
        let wide = Hosts { any_address: true, names: Vec::new() };
        let named = |hosts: &Hosts, host: &str| hosts.permitted(&headers(&[(HOST, host)])).is_some();
        for host in ["localhost", "LOCALHOST:7445", "127.0.0.1:7445", "[::1]:7445", "NAS.example:1"] {
            assert!(named(&own, host), "{host}");
        }
        for host in
            ["attacker.example", "localhost.attacker.example", "127.0.0.1.nip.io", "10.0.0.1", "a@localhost", "", "a b"]
        {
            assert!(!named(&own, host), "{host}");
        }
        assert!(named(&wide, "10.0.0.1:7445") && named(&wide, "[2001:db8::1]") && !named(&wide, "nas.example"));
        assert!(own.permitted(&headers(&[])).is_none());
        assert!(own.permitted(&headers(&[(HOST, "localhost"), (HOST, "localhost")])).is_none());
    }

    #[test]
    fn only_the_page_itself_changes_something() {
        let host = Authority::from_static("localhost:7445");
        let changes = |pairs: &[(HeaderName, &str)]| is_own_change(&headers(pairs), &host);
        assert!(changes(&[(ORIGIN, "http://localhost:7445")]) && changes(&[(ORIGIN, "https://localhost:7445")]));
        assert!(changes(&[(ORIGIN, "http://localhost:7445"), (FETCH_SITE, "same-origin")]));
        for origin in
            ["null", "http://localhost", "http://localhost:7446", "http://evil.example", "ftp://localhost:7445", ""]
        {
            assert!(!changes(&[(ORIGIN, origin)]), "{origin}");
        }
        assert!(!changes(&[]) && !changes(&[(ORIGIN, "http://localhost:7445"), (FETCH_SITE, "same-site")]));
        assert!(!changes(&[(ORIGIN, "http://localhost:7445"), (ORIGIN, "http://evil.example")]));
        assert!(is_own_page(&headers(&[])) && is_own_page(&headers(&[(FETCH_SITE, "none")])));
        assert!(!is_own_page(&headers(&[(FETCH_SITE, "cross-site")])));
    }
}
