//! The request that writes to a pipe, as the services of `rpc` see it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use proto::crypto::kdf::Key;

use crate::error::Disconnect;
use crate::logon_throttle::Guess;
use crate::named_pipe::{BoxFuture, Caller};
use crate::policy::template::Variable;
use crate::request::Request;
use crate::state::connection::Failed;
use crate::state::connection::NoRoom;
use crate::user::User;

impl Caller for Request<'_> {
    fn user(&self) -> Option<Arc<User>> {
        self.session().ok()?.user()
    }

    fn session(&self) -> Option<u64> {
        Some(Request::session(self).ok()?.id)
    }

    fn application_key(&self) -> Option<Key> {
        Request::session(self).ok()?.keys()?.application.clone()
    }

    fn address(&self) -> SocketAddr {
        self.connection.peer.remote
    }

    fn variable(&self, letter: char) -> Option<String> {
        Request::variable(self, &*self.user()?, Variable(letter))
    }

    fn close_session(&self, id: u64) -> BoxFuture<'_, bool> {
        Box::pin(self.connection.server.close_session(id))
    }

    fn close_file(&self, number: u32) -> BoxFuture<'_, bool> {
        Box::pin(self.connection.server.close_file_number(number))
    }

    /// Delays the response as that to a failed logon, by user account and by address.
    fn delay_wrong_password<'a>(&'a self, name: &'a str, arrived: Duration) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let connection = &**self.connection;
            let guess = Guess { name, from: connection.peer.remote.ip().into(), asked: arrived };
            let failed = Failed { connection, guess, length: self.message.len() };
            if failed.wait(&connection.server).await == Err(NoRoom) {
                connection.end(Disconnect("too many wrong passwords over pipes"));
            }
        })
    }
}
