//! The request that writes to a pipe, as the services of `rpc` see it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use proto::crypto::kdf::Key;
use proto::smb2::SecurityInformation;
use tokio::sync::Mutex;

use super::{document, file_security};
use crate::error::{Disconnect, Result};
use crate::logon_throttle::Guess;
use crate::named_pipe::{BoxFuture, Caller, SharedFile, Spool};
use crate::policy::Share;
use crate::policy::template::Variable;
use crate::request::{Reply, Request};
use crate::state::connection::Failed;
use crate::state::connection::NoRoom;
use crate::tree::Printer;
use crate::user::User;

/// The request and its response.
pub(super) struct PipeCaller<'a, 'r> {
    request: &'a Request<'r>,
    /// An operation within the request that has to wait sends the interim response of the request. The calls of one
    /// request are executed one after another, so nobody waits for the lock.
    reply: Mutex<&'a mut Reply>,
}

impl<'a, 'r> PipeCaller<'a, 'r> {
    /// Returns the caller of `request`, whose response is `reply`.
    pub(super) fn new(request: &'a Request<'r>, reply: &'a mut Reply) -> Self {
        PipeCaller { request, reply: Mutex::new(reply) }
    }
}

impl Caller for PipeCaller<'_, '_> {
    fn user(&self) -> Option<Arc<User>> {
        self.request.session().ok()?.user()
    }

    fn session(&self) -> Option<u64> {
        Some(self.request.session().ok()?.id)
    }

    fn application_key(&self) -> Option<Key> {
        self.request.session().ok()?.keys()?.application.clone()
    }

    fn address(&self) -> SocketAddr {
        self.request.connection.peer.remote
    }

    fn variable(&self, letter: char) -> Option<String> {
        self.request.variable(&*self.user()?, Variable(letter))
    }

    fn close_session(&self, id: u64) -> BoxFuture<'_, bool> {
        Box::pin(self.request.connection.server.close_session(id))
    }

    fn close_file(&self, number: u32) -> BoxFuture<'_, bool> {
        Box::pin(self.request.connection.server.close_file_number(number))
    }

    /// Delays the response as that to a failed logon, by user account and by address.
    fn delay_wrong_password<'a>(&'a self, name: &'a str, arrived: Duration) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let connection = &**self.request.connection;
            let guess = Guess { name, from: connection.peer.remote.ip().into(), asked: arrived };
            let failed = Failed { connection, guess, length: self.request.message.len() };
            if failed.wait(&connection.server).await == Err(NoRoom) {
                connection.end(Disconnect("too many wrong passwords over pipes"));
            }
        })
    }

    fn file_security<'a>(&'a self, file: SharedFile<'a>, parts: SecurityInformation) -> BoxFuture<'a, Result<Vec<u8>>> {
        Box::pin(async move { file_security::query(self.request, *self.reply.lock().await, file, parts).await })
    }

    fn set_file_security<'a>(
        &'a self,
        file: SharedFile<'a>,
        parts: SecurityInformation,
        descriptor: &'a [u8],
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(
            async move { file_security::set(self.request, *self.reply.lock().await, file, parts, descriptor).await },
        )
    }

    fn may_connect<'a>(&'a self, share: &'a Share) -> BoxFuture<'a, bool> {
        Box::pin(document::may_connect(self.request, share))
    }

    fn connect_printer<'a>(&'a self, share: &'a str) -> BoxFuture<'a, Result<Printer>> {
        Box::pin(document::connect(self.request, share))
    }

    fn begin_document<'a>(&'a self, printer: &'a Printer) -> BoxFuture<'a, Result<Arc<Spool>>> {
        Box::pin(async move { document::begin(self.request, *self.reply.lock().await, printer).await })
    }

    fn write_document<'a>(&'a self, spool: &'a Spool, data: Vec<u8>) -> BoxFuture<'a, Result<()>> {
        Box::pin(document::write(self.request, spool, data))
    }

    fn print_document<'a>(
        &'a self,
        printer: &'a Printer,
        title: &'a str,
        spool: &'a Spool,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { document::submit(self.request, *self.reply.lock().await, printer, title, spool).await })
    }
}
