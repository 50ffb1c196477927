//! UNIX sockets in the state directory, to which only root and the server's user can connect.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use accounts::state_dir::StateDir;
use anyhow::{Context, Result, bail};
use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::{UnixListener, UnixStream};
use tracing::{info, warn};

/// A listening socket. Dropping it removes its file.
pub struct SocketFile {
    listener: UnixListener,
    state: Arc<StateDir>,
    name: &'static str,
    /// Device and inode of the file, so that the file of a successor is not removed.
    file: (u64, u64),
}

impl SocketFile {
    /// Listens on the file `name` in `state`. A stale file is replaced if no server answers on it. Must be called
    /// within a tokio runtime.
    ///
    /// # Errors
    /// Another server uses the file, or it cannot be created.
    pub fn bind(state: Arc<StateDir>, name: &'static str) -> Result<SocketFile> {
        SocketFile::try_bind(state, name).context(name)
    }

    fn try_bind(state: Arc<StateDir>, name: &'static str) -> Result<SocketFile> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // Linux creates the file with the socket's own mode, so other users can never connect.
        rustix::fs::fchmod(&socket, Mode::from_raw_mode(0o600))?;
        let path = state.short_path(name);
        let address = SocketAddrUnix::new(&path)?;
        match rustix::net::bind(&socket, &address) {
            Ok(()) => {}
            Err(rustix::io::Errno::ADDRINUSE) => {
                remove_stale(&state, name)?;
                rustix::net::bind(&socket, &address)?;
            }
            Err(error) => return Err(error).with_context(|| state.path().join(name).display().to_string()),
        }
        let stat = rustix::fs::lstat(&path)?;
        rustix::net::listen(&socket, 16)?;
        let listener = UnixListener::from_std(std::os::unix::net::UnixListener::from(socket))?;
        Ok(SocketFile { listener, state, name, file: (stat.st_dev, stat.st_ino) })
    }

    /// Accepts a connection.
    pub async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // The thread may be impersonating a user at this moment.
        let removed = localfs::identity::as_process(|| {
            let path = self.state.short_path(self.name);
            let mine = rustix::fs::lstat(&path).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == self.file);
            if mine { self.state.remove(self.name) } else { Ok(()) }
        });
        if let Err(error) = removed.map_err(anyhow::Error::from).flatten() {
            warn!("{}: {error:#}", self.name);
        }
    }
}

fn remove_stale(state: &StateDir, name: &str) -> Result<()> {
    match std::os::unix::net::UnixStream::connect(state.short_path(name)) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            info!("{name}: replacing a stale socket");
            state.remove(name)
        }
        _ => bail!(
            "{} is in use; check whether a server already runs with this state directory",
            state.path().join(name).display()
        ),
    }
}
