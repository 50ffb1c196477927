//! The execution of chains, in memory that is used again.
//!
//! The future of a chain has room for the state of any command, about 10 KiB. To allocate one for each chain would mean
//! to copy it from the stack, although a new one has hardly any state. A [`Runner`] is a future that runs one chain
//! after the other, and is allocated once.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;

use super::Chain;
use crate::heap_size;

/// How many runners without a chain a thread keeps.
const KEPT: usize = 4;

thread_local! {
    /// The runners without a chain that last ran on this thread.
    static FREE: RefCell<Vec<Runner>> = const { RefCell::new(Vec::new()) };
}

/// A chain that is being executed. If it is dropped, the execution ends where it waits.
#[must_use = "a chain is executed only while it is polled"]
pub struct Execution {
    /// `None` once the chain is finished.
    runner: Option<Runner>,
}

impl Chain {
    /// Returns the execution of the requests in order, which puts the responses into the connection's outbox.
    pub fn execute(self) -> Execution {
        let runner = FREE.with_borrow_mut(Vec::pop).unwrap_or_else(Runner::new);
        runner.turn.lock().chain = Some(self);
        Execution { runner: Some(runner) }
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
        let runner = self.runner.take();
        FREE.with_borrow_mut(|free| free.extend(runner.filter(|_| free.len() < KEPT)));
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

/// Returns the memory of a runner in bytes.
pub(super) fn runner_size() -> usize {
    fn size_of_output<I, O>(_: impl Fn(I) -> O) -> usize {
        size_of::<O>()
    }
    heap_size::allocation(size_of_output(run_all)) + heap_size::shared::<Mutex<Turn>>()
}

async fn run_all(turn: Arc<Mutex<Turn>>) -> Infallible {
    loop {
        let next = |_: &mut Context<'_>| turn.lock().chain.take().map_or(Poll::Pending, Poll::Ready);
        poll_fn(next).await.run().await;
        turn.lock().is_over = true;
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
    use crate::testing::{TestClient, TestServer};

    /// The runners without a chain.
    fn free() -> Vec<*const Mutex<Turn>> {
        FREE.with_borrow(|free| free.iter().map(|runner| Arc::as_ptr(&runner.turn)).collect())
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
        let first = free();
        assert_eq!(first.len(), 1, "requests that follow each other need one runner");
        client.request(Command::ECHO, |out| EchoRequest.encode(out));
        assert_eq!(free(), first);
    }

    #[test]
    fn a_chain_that_waits_has_its_runner_until_it_is_finished() {
        let server = TestServer::new();
        let mut client = TestClient::logged_on(&server, "alice");
        let directory = client.open("", AccessMask(0x0012_0089));
        let first = free();
        watch(&mut client, directory);
        assert!(client.is_waiting());
        assert_eq!(free(), []);
        client.request(Command::ECHO, |out| EchoRequest.encode(out));
        let second = free();
        assert!(second.len() == 1 && second != first);
        (0..2 * KEPT).for_each(|_| watch(&mut client, directory));
        let close = CloseRequest { flags: CloseFlags::NONE, file_id: directory };
        let message = client.compose(Command::CLOSE, |out| close.encode(out));
        client.send(&message);
        assert!(!client.is_waiting(), "all are answered");
        assert_eq!(free().len(), KEPT, "the others are freed");
    }

    #[test]
    fn the_cost_of_a_chain_includes_its_runner() {
        let server = TestServer::new();
        let mut client = TestClient::logged_on(&server, "alice");
        let message = client.compose(Command::ECHO, |out| EchoRequest.encode(out));
        let chain = client.connection.receive((&*message).into()).expect("a request").expect("a chain");
        let runner = size_of_val(&*Runner::new().future);
        assert!(chain.cost().requests > runner && runner > 1024, "{} of {runner}", chain.cost().requests);
    }
}
