//! TLS: the certificate, and the handshake.

use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Certificate;

/// The first byte of a record with a handshake (RFC 8446 5.1).
const HANDSHAKE: u8 = 22;
/// The answer to anything else, which is most likely a request of HTTP. Nothing of it was read.
const NO_TLS: &str = "This port of the Frevo console has TLS; open the address with https://\n";
/// The bytes of a refused request that are read, so that its client gets the answer.
const DRAINED: u64 = 64 * 1024;

/// Reads a certificate and its key.
///
/// # Errors
/// A file cannot be read or has none, or they do not belong together.
pub(super) fn acceptor(files: &Certificate) -> Result<TlsAcceptor> {
    let unread = |path: &Path| format!("cannot read {}; a PEM file is expected", path.display());
    let chain: Vec<_> = CertificateDer::pem_file_iter(&files.chain)
        .and_then(Iterator::collect)
        .with_context(|| unread(&files.chain))?;
    let (certificate, key) = (files.chain.display(), files.key.display());
    ensure!(!chain.is_empty(), "{certificate} has no certificate; a PEM file with BEGIN CERTIFICATE is expected");
    let secret = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound => {
            anyhow!("{key} has no private key; a PEM file is expected, without a passphrase")
        }
        error => anyhow::Error::from(error).context(unread(&files.key)),
    })?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let settings = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, secret);
    let mut settings = settings.map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            anyhow!("{key} is not the key of {certificate}, whose first certificate must be that of the console")
        }
        error => anyhow::Error::from(error).context(format!("cannot use {certificate} with {key}")),
    })?;
    settings.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(settings)))
}

/// Executes the handshake. A client that begins without TLS learns so; `None` then.
///
/// # Errors
/// The handshake fails.
pub(crate) async fn accept(tls: &TlsAcceptor, mut stream: TcpStream) -> io::Result<Option<TlsStream<TcpStream>>> {
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 || first == [HANDSHAKE] {
        return tls.accept(stream).await.map(Some);
    }
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{NO_TLS}",
        NO_TLS.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    tokio::io::copy(&mut stream.take(DRAINED), &mut tokio::io::sink()).await?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::SocketAddr;
    use std::path::PathBuf;

    use rustls::pki_types::ServerName;
    use tokio_rustls::TlsConnector;

    use super::*;
    use crate::listen::Listener;
    use crate::{Administration, Caller, Console, LogonError, Sample, serve};

    struct Nothing;

    impl Administration for Nothing {
        fn log_on(&self, caller: &Caller, _: &str) -> Result<String, LogonError> {
            Ok(caller.name.clone())
        }

        fn logged_off(&self, _: &Caller) {}

        fn query(&self, _: &str, _: &serde_json::Value) -> Option<Result<serde_json::Value, String>> {
            None
        }

        fn change(&self, _: &Caller, _: &str, _: serde_json::Value) -> Option<Result<serde_json::Value, String>> {
            None
        }

        fn revoked(&self, _: &str, _: &serde_json::Value) -> Option<String> {
            None
        }

        fn series(&self) -> &'static [&'static str] {
            &[]
        }

        fn sample(&self) -> Option<Sample> {
            None
        }
    }

    fn file(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
    }

    fn certificate() -> Certificate {
        Certificate { chain: file("certificate.pem"), key: file("key.pem") }
    }

    fn start() -> SocketAddr {
        let place = "127.0.0.1:0".parse().unwrap();
        let listener = Listener::bind(&place, Some(&certificate()), vec!["nas.example".into()]).unwrap();
        let url = listener.url();
        tokio::spawn(serve(Console::new(Arc::new(Nothing)), listener));
        url.strip_prefix("https://").unwrap().trim_end_matches('/').parse().unwrap()
    }

    async fn text(mut stream: impl tokio::io::AsyncRead + Unpin) -> String {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        String::from_utf8(bytes).unwrap()
    }

    fn connector(versions: &[&'static rustls::SupportedProtocolVersion]) -> TlsConnector {
        let mut roots = rustls::RootCertStore::empty();
        let chain = CertificateDer::pem_file_iter(file("certificate.pem")).unwrap();
        chain.for_each(|certificate| roots.add(certificate.unwrap()).unwrap());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let settings = rustls::ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
        TlsConnector::from(Arc::new(settings.with_root_certificates(roots).with_no_client_auth()))
    }

    #[tokio::test]
    async fn a_client_that_trusts_the_certificate_gets_the_page() {
        let address = start();
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            let stream = TcpStream::connect(address).await.unwrap();
            let name = ServerName::try_from("nas.example").unwrap();
            let mut stream = connector(&[version]).connect(name, stream).await.unwrap();
            let body = r#"{"name":"ann","password":"right"}"#;
            let request = format!(
                "POST /api/logon HTTP/1.1\r\nHost: nas.example\r\nOrigin: https://nas.example\r\nContent-Type: \
                 application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            let answer = text(stream).await;
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            assert!(answer.contains("set-cookie: __Host-") && answer.contains("; Secure"), "{answer}");
        }
        let stream = TcpStream::connect(address).await.unwrap();
        let other = ServerName::try_from("other.example").unwrap();
        assert!(connector(&[&rustls::version::TLS13]).connect(other, stream).await.is_err(), "the name is checked");
    }

    #[tokio::test]
    async fn a_client_without_tls_learns_so() {
        let address = start();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"POST /api/logon HTTP/1.1\r\nHost: nas.example\r\n\r\nsecret").await.unwrap();
        let answer = text(stream).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("https://"), "{answer}");
        assert!(!answer.contains("secret") && !answer.contains("<html"), "{answer}");
        // The next client is served.
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = connector(&[&rustls::version::TLS13]).connect(name, stream).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
        assert!(text(stream).await.contains("Frevo console"));
    }

    #[test]
    fn wrong_files_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let empty = directory.path().join("empty.pem");
        fs::write(&empty, "").unwrap();
        let broken = directory.path().join("broken.pem");
        fs::write(&broken, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
        let missing = directory.path().join("missing.pem");
        let right = certificate();
        for (chain, key, named, said) in [
            (&missing, &right.key, &missing, "cannot read"),
            (&right.chain, &missing, &missing, "cannot read"),
            (&empty, &right.key, &empty, "has no certificate"),
            (&right.key, &right.key, &right.key, "has no certificate"),
            (&right.chain, &empty, &empty, "has no private key"),
            (&right.chain, &right.chain, &right.chain, "has no private key"),
            (&right.chain, &file("other-key.pem"), &right.chain, "is not the key of"),
            (&broken, &right.key, &broken, "cannot use"),
        ] {
            let wrong = Certificate { chain: chain.clone(), key: key.clone() };
            let error = format!("{:#}", acceptor(&wrong).err().expect("refused"));
            assert!(error.contains(said) && error.contains(&named.display().to_string()), "{said}: {error}");
        }
        assert!(acceptor(&right).is_ok());
    }
}
