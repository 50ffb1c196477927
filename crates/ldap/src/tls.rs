//! TLS to the directory: the certification authorities for `ldaps` and StartTLS.
//!
//! Certificates are always checked: there is no equivalent of OpenLDAP's `TLS_REQCERT never`. The trusted authorities
//! are those of the first of these that is set: the file that the caller names (`tls cafile` of smb.conf), `TLS_CACERT`
//! of ldap.conf(5), which Samba's `ldapsam` uses, and the authorities of the system.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// The locations of ldap.conf(5) in distributions.
const CONFIGURATIONS: [&str; 2] = ["/etc/ldap/ldap.conf", "/etc/openldap/ldap.conf"];

/// Builds the TLS configuration; `authority` is a file with certificates of the trusted authorities. Blocks.
pub fn configuration(authority: Option<&Path>) -> Result<Arc<ClientConfig>> {
    let named = authority.map(Path::to_owned).or_else(of_openldap);
    let mut roots = RootCertStore::empty();
    match &named {
        Some(path) => {
            let context = || format!("certification authority {}", path.display());
            for certificate in CertificateDer::pem_file_iter(path).with_context(context)? {
                roots.add(certificate.with_context(context)?).with_context(context)?;
            }
            ensure!(!roots.is_empty(), "certification authority {}: the file contains no certificate", path.display());
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            ensure!(
                !roots.is_empty(),
                "this system has no certification authorities: set the directory's with `tls cafile`"
            );
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

/// Returns the file that OpenLDAP's own programs use.
fn of_openldap() -> Option<PathBuf> {
    let text = CONFIGURATIONS.iter().find_map(|path| std::fs::read_to_string(path).ok())?;
    authority_in(&text)
}

/// Returns `TLS_CACERT` of an ldap.conf(5): keywords in any case, comments are lines that begin with `#`.
fn authority_in(text: &str) -> Option<PathBuf> {
    let words =
        |line: &str| line.split_once(char::is_whitespace).map(|(word, rest)| (word.to_owned(), rest.trim().to_owned()));
    let mut named = text.lines().filter_map(words).filter(|(word, _)| word.eq_ignore_ascii_case("TLS_CACERT"));
    named.next_back().map(|(_, path)| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openldap_names_an_authority() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(authority_in(text), expected.map(PathBuf::from));
        check("", None);
        check("#TLS_CACERT /a\nBASE dc=x\n", None);
        check("tls_cacert\t/etc/ssl/ca.pem \nTLS_CACERTDIR /b\n", Some("/etc/ssl/ca.pem"));
        check("TLS_CACERT /a\nTLS_CACERT /b\n", Some("/b"));
    }

    #[test]
    fn a_file_without_certificates_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = configuration(Some(file.path())).unwrap_err();
        assert!(format!("{error:#}").contains(&file.path().display().to_string()));
        assert!(configuration(Some(Path::new("/nonexistent"))).is_err());
    }
}
