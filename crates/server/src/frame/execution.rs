//! The execution of chains, in memory that is used again.
//!
//! The future of a chain has room for the state of any command, about 10 KiB. To allocate one for each chain would mean
//! to copy it from the stack, although a new one has hardly any state. A [`Runner`] is a future that runs one chain
//! after the other, and is allocated once.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;

use super::Chain;
use crate::per_processor::PerProcessor;
use crate::state::connection::Connection;

/// How many runners without a chain each processor keeps.
const KEPT: usize = 4;

/// A chain that is being executed. If it is dropped, the execution ends where it waits.
#[must_use = "a chain is executed only while it is polled"]
pub struct Execution {
    connection: Arc<Connection>,
    /// `None` once the chain is finished.
    runner: Option<Runner>,
}

impl Chain {
    /// Returns the execution of the requests in order, which puts the responses into the connection's outbox.
    pub fn execute(self) -> Execution {
        let connection = self.connection.clone();
        let runner = connection.server.runners.take();
        runner.turn.lock().chain = Some(self);
        Execution { connection, runner: Some(runner) }
    }
}

impl Future for Execution {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(runner) = &mut self.runner else { return Poll::Pending };
        let Poll::Pending = runner.future.as_mut().poll(context);
        if !std::mem::take(&mut runner.turn.lock().is_over) {
            return Poll::Pending;
        }
        if let Some(runner) = self.runner.take() {
            self.connection.server.runners.keep(runner);
        }
        Poll::Ready(())
    }
}

/// A future that runs chains, one at a time.
struct Runner {
    turn: Arc<Mutex<Turn>>,
    future: Pin<Box<dyn Future<Output = Infallible> + Send>>,
}

#[derive(Default)]
struct Turn {
    /// The chain to run next.
    chain: Option<Chain>,
    /// The last chain is finished.
    is_over: bool,
}

impl Runner {
    fn new() -> Runner {
        let turn = Arc::<Mutex<Turn>>::default();
        Runner { future: Box::pin(run_all(Arc::clone(&turn))), turn }
    }
}

async fn run_all(turn: Arc<Mutex<Turn>>) -> Infallible {
    loop {
        let next = |_: &mut Context<'_>| turn.lock().chain.take().map_or(Poll::Pending, Poll::Ready);
        poll_fn(next).await.run().await;
        turn.lock().is_over = true;
    }
}

/// The runners without a chain.
pub(crate) struct Runners(PerProcessor<Mutex<Vec<Runner>>>);

impl Runners {
    /// Creates an empty set.
    pub(crate) fn new() -> Runners {
        Runners(PerProcessor::new(|_| Mutex::default()))
    }

    fn take(&self) -> Runner {
        let kept = self.0.own().lock().pop();
        kept.unwrap_or_else(Runner::new)
    }

    fn keep(&self, runner: Runner) {
        let mut kept = self.0.own().lock();
        if kept.len() < KEPT {
            kept.push(runner);
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::dtyp::AccessMask;
    use proto::smb2::FileId;
    use proto::smb2::change_notify::{ChangeNotifyFlags, ChangeNotifyRequest, CompletionFilter};
    use proto::smb2::close::{CloseFlags, CloseRequest};
    use proto::smb2::echo::EchoRequest;
    use proto::smb2::header::Command;

    use super::*;
    use crate::state::Server;
    use crate::testing::{TestClient, TestServer};

    /// The runners without a chain.
    fn kept(server: &Server) -> Vec<*const Mutex<Turn>> {
        let each = server
            .runners
            .0
            .iter()
            .flat_map(|own| own.lock().iter().map(|it| Arc::as_ptr(&it.turn)).collect::<Vec<_>>());
        each.collect()
    }

    /// Asks to be told of changes, and does not wait for the answer.
    fn watch(client: &mut TestClient, file_id: FileId) {
        let notify = ChangeNotifyRequest {
            flags: ChangeNotifyFlags::NONE,
            output_buffer_length: 4096,
            file_id,
            completion_filter: CompletionFilter::FILE_NAME,
        };
        let message = client.compose(Command::CHANGE_NOTIFY, |out| notify.encode(out));
        client.send(&message);
    }

    #[test]
    fn a_runner_runs_the_next_chain_too() {
        let server = TestServer::new();
        let mut client = TestClient::logged_on(&server, "alice");
        let first = kept(&server);
        assert_eq!(first.len(), 1, "requests that follow each other need one runner");
        client.request(Command::ECHO, |out| EchoRequest.encode(out));
        assert_eq!(kept(&server), first);
    }

    #[test]
    fn a_chain_that_waits_has_its_runner_until_it_is_finished() {
        let server = TestServer::new();
        let mut client = TestClient::logged_on(&server, "alice");
        let directory = client.open("", AccessMask(0x0012_0089));
        let first = kept(&server);
        watch(&mut client, directory);
        assert!(client.is_waiting());
        assert_eq!(kept(&server), []);
        client.request(Command::ECHO, |out| EchoRequest.encode(out));
        let second = kept(&server);
        assert!(second.len() == 1 && second != first);
        (0..2 * KEPT).for_each(|_| watch(&mut client, directory));
        let close = CloseRequest { flags: CloseFlags::NONE, file_id: directory };
        let message = client.compose(Command::CLOSE, |out| close.encode(out));
        client.send(&message);
        assert!(!client.is_waiting(), "all are answered");
        assert_eq!(kept(&server).len(), KEPT, "the others are freed");
    }
}
