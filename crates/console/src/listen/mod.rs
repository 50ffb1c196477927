//! Where the console listens: an address, with TLS unless it is of the loopback interface, or a UNIX socket.

pub(crate) mod tls;

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use tokio::net::{TcpListener, UnixListener};
use tokio_rustls::TlsAcceptor;

use crate::guard::Hosts;

/// The port without another one.
pub const PORT: u16 = 7445;

/// A place to listen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// An address and a port.
    Address(SocketAddr),
    /// The path of a UNIX socket.
    Unix(PathBuf),
}

impl Default for Place {
    fn default() -> Self {
        Place::Address((IpAddr::from([127, 0, 0, 1]), PORT).into())
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        if text.starts_with('/') {
            return Ok(Place::Unix(text.into()));
        }
        let address = text.parse::<IpAddr>().map(|address| (address, PORT).into());
        address.or_else(|_| text.parse()).map(Place::Address).map_err(|_| {
            format!("expected an address such as 127.0.0.1:{PORT} or [::1]:{PORT}, or the absolute path of a socket")
        })
    }
}

/// The files of a certificate.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate and those that lead to its authority, PEM.
    pub chain: PathBuf,
    /// The private key, PEM.
    pub key: PathBuf,
}

/// A socket that listens.
pub struct Listener {
    pub(crate) socket: Socket,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) hosts: Hosts,
}

pub(crate) enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, RemovedFile),
}

/// The file of a socket, which is removed with the value, unless another console has replaced it.
pub(crate) struct RemovedFile {
    path: PathBuf,
    /// The device and the inode.
    file: (u64, u64),
}

impl RemovedFile {
    fn of(path: &Path) -> std::io::Result<RemovedFile> {
        Ok(RemovedFile { path: path.to_owned(), file: identity(path)? })
    }
}

impl Drop for RemovedFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

/// Returns whether a user may use the UNIX socket: root, and the user of the console.
pub(crate) fn is_trusted(uid: u32) -> bool {
    // The directory of the process belongs to its effective user.
    uid == 0 || fs::metadata("/proc/self").is_ok_and(|own| own.uid() == uid)
}

impl Listener {
    /// Listens. Requests may name the hosts `names`. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The place cannot be used, or passwords would be sent over a network without TLS.
    pub fn bind(place: &Place, certificate: Option<&Certificate>, names: Vec<String>) -> Result<Listener> {
        let tls = certificate.map(tls::acceptor).transpose()?;
        match place {
            Place::Address(address) => {
                let is_own = address.ip().to_canonical().is_loopback();
                ensure!(
                    is_own || tls.is_some(),
                    "{address} is not an address of the loopback interface, so passwords would be sent in clear over \
                     the network; give a certificate with --certificate and --key, or listen on 127.0.0.1"
                );
                let socket = std::net::TcpListener::bind(address)
                    .with_context(|| format!("cannot listen on {address}; choose another port with --listen"))?;
                socket.set_nonblocking(true)?;
                let hosts = Hosts { any_address: !is_own, names };
                Ok(Listener { socket: Socket::Tcp(TcpListener::from_std(socket)?), tls, hosts })
            }
            Place::Unix(path) => {
                ensure!(tls.is_none(), "a UNIX socket has no TLS; leave out --certificate");
                Ok(Listener { socket: unix(path)?, tls: None, hosts: Hosts { any_address: false, names } })
            }
        }
    }

    /// Returns the URL of the page, or the path of the socket.
    pub fn url(&self) -> String {
        match &self.socket {
            Socket::Tcp(socket) => {
                let scheme = if self.tls.is_some() { "https" } else { "http" };
                socket.local_addr().map_or_else(|error| error.to_string(), |own| format!("{scheme}://{own}/"))
            }
            Socket::Unix(_, file) => file.path.display().to_string(),
        }
    }
}

/// Listens on a socket that only its owner and root may connect to. The socket of a process that has ended is replaced.
fn unix(path: &Path) -> Result<Socket> {
    let shown = path.display();
    let is_socket = fs::symlink_metadata(path).map(|file| file.file_type().is_socket());
    match is_socket {
        Ok(false) => bail!("{shown} exists and is not a socket; choose another path"),
        Ok(true) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
            bail!("{shown} is in use; check whether a console already runs there")
        }
        Ok(true) => fs::remove_file(path).with_context(|| format!("cannot replace {shown}"))?,
        Err(_) => {}
    }
    // The socket gets its name once it has its mode. Each connection is checked nevertheless.
    let directory = path.parent().context("the path of the socket has no directory")?;
    let mut random = [0; 8];
    aws_lc_rs::rand::fill(&mut random).expect("the random generator seeds itself from the kernel and never fails");
    let hidden = directory.join(format!(".console-{:016x}", u64::from_ne_bytes(random)));
    let named = || -> std::io::Result<(UnixListener, RemovedFile)> {
        let socket = std::os::unix::net::UnixListener::bind(&hidden)?;
        fs::set_permissions(&hidden, fs::Permissions::from_mode(0o600))?;
        fs::rename(&hidden, path)?;
        let file = RemovedFile::of(path)?;
        socket.set_nonblocking(true)?;
        Ok((UnixListener::from_std(socket)?, file))
    };
    let socket = named().inspect_err(|_| _ = fs::remove_file(&hidden));
    let (socket, file) = socket.with_context(|| format!("cannot listen on {shown}"))?;
    Ok(Socket::Unix(socket, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_addresses_or_paths() {
        let address = |text: &str| Place::Address(text.parse().expect("an address"));
        assert_eq!("127.0.0.1:80".parse(), Ok(address("127.0.0.1:80")));
        assert_eq!("::1".parse(), Ok(address("[::1]:7445")));
        assert_eq!("/run/console.sock".parse(), Ok(Place::Unix("/run/console.sock".into())));
        assert!("nas.example".parse::<Place>().is_err() && "console.sock".parse::<Place>().is_err());
    }

    #[test]
    fn only_the_user_of_the_console_and_root_are_trusted() {
        let own = tempfile::tempfile().and_then(|file| file.metadata()).expect("a file").uid();
        assert!(is_trusted(0) && is_trusted(own) && !is_trusted(own + 1));
    }

    #[tokio::test]
    async fn another_address_needs_tls() {
        for wide in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let error = Listener::bind(&wide.parse().unwrap(), None, Vec::new()).err().expect("refused").to_string();
            assert!(error.contains("--certificate"), "{error}");
        }
        assert!(Listener::bind(&"127.0.0.1:0".parse().unwrap(), None, Vec::new()).is_ok());
    }

    #[tokio::test]
    async fn a_socket_is_private_and_replaces_a_stale_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("console.sock");
        let bind = || Listener::bind(&Place::Unix(path.clone()), None, Vec::new());
        drop(std::os::unix::net::UnixListener::bind(&path).expect("a stale socket"));
        let listener = bind().expect("it listens");
        assert_eq!(fs::metadata(&path).expect("the socket").permissions().mode() & 0o777, 0o600);
        assert!(bind().err().expect("refused").to_string().contains("in use"));
        let moved = directory.path().join("moved");
        fs::rename(&path, &moved).expect("it is moved");
        let successor = bind().expect("it listens");
        drop(listener);
        assert!(path.exists(), "the socket of another console stays");
        fs::remove_file(&moved).expect("it is there");
        drop(successor);
        assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 0);
        fs::write(&path, "data").expect("a file");
        assert!(bind().err().expect("refused").to_string().contains("not a socket"));
        assert_eq!(fs::read(&path).expect("the file"), b"data");
    }
}
