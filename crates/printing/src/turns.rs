//! Turns for work of which only so much is done at a time, of each user and of all.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The turns of one kind of work.
pub(crate) struct Turns {
    all: Arc<Semaphore>,
    /// How many turns one user may have. Others of the user wait without being ahead of another user.
    each: usize,
    users: Mutex<HashMap<u32, User>>,
}

struct User {
    turns: Arc<Semaphore>,
    /// How many calls have a turn or wait for one.
    calls: usize,
}

/// A turn, until it is dropped.
pub(crate) struct Turn<'a> {
    _of_user: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
    _call: Call<'a>,
}

struct Call<'a>(&'a Turns, u32);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let mut users = self.0.users.lock();
        if let Some(user) = users.get_mut(&self.1) {
            user.calls -= 1;
            if user.calls == 0 {
                users.remove(&self.1);
            }
        }
    }
}

impl Turns {
    /// Creates `all` turns, of which each user may have `each`.
    pub(crate) fn new(all: usize, each: usize) -> Turns {
        Turns { all: Arc::new(Semaphore::new(all)), each, users: Mutex::default() }
    }

    /// Waits for a turn of the user with this uid; `None` if it does not come in time.
    pub(crate) async fn take(&self, uid: u32, time: Duration) -> Option<Turn<'_>> {
        let of_user = {
            let mut users = self.users.lock();
            let new = || User { turns: Arc::new(Semaphore::new(self.each)), calls: 0 };
            let user = users.entry(uid).or_insert_with(new);
            user.calls += 1;
            user.turns.clone()
        };
        let call = Call(self, uid);
        let both = async {
            let of_user = of_user.acquire_owned().await.ok()?;
            let of_all = self.all.clone().acquire_owned().await.ok()?;
            Some(Turn { _of_user: of_user, _of_all: of_all, _call: call })
        };
        timeout(time, both).await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn a_user_leaves_turns_to_others_and_the_wait_is_limited() {
        let turns = Turns::new(3, 2);
        let [one, two] = [turns.take(1, LONG).await, turns.take(1, LONG).await];
        assert!(one.is_some() && two.is_some());
        assert!(turns.take(1, Duration::from_secs(30)).await.is_none(), "the user has both of theirs");
        let other = turns.take(2, LONG).await;
        assert!(other.is_some(), "a turn is left for another user");
        assert!(turns.take(3, Duration::from_secs(30)).await.is_none(), "there are three turns");
        drop(one);
        let third = turns.take(3, LONG).await;
        assert!(third.is_some());
        drop((two, other, third));
        assert!(turns.users.lock().is_empty(), "users without turns are forgotten");
    }
}
