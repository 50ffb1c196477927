//! Lists of accounts and groups for the pipe `samr`. Reading them may block, and no logon waits for them, so a few at a
//! time are read on blocking threads. A thread that hangs keeps its permit even if its caller has given up. A caller
//! that gets no permit fails after a timeout.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use proto::dtyp::Sid;
use server::accounts::principals::UnixId;
use server::accounts::{ListedAccount, ListedGroup, Unavailable};
use server::answer::Answer;
use tokio::sync::Semaphore;

use super::Directory;
use super::backend::Entry;
use super::groups::{Group, GroupKey};
use super::unix::members::members;

/// Limits the number of lists that are read at the same time.
static LISTS: Semaphore = Semaphore::const_new(2);
/// How long a caller waits for a permit. Clients time out after 20 seconds at the earliest.
const PATIENCE: Duration = Duration::from_secs(15);

/// Accounts per page while counting.
const PAGE: usize = 1000;
/// How long a number of users is cached.
const COUNTED: Duration = Duration::from_secs(60);
/// A number that took at most this long to count is not cached.
const QUICK: Duration = Duration::from_millis(5);

/// A cached number of users.
#[derive(Clone, Copy)]
pub(super) struct Counted {
    pub(super) since: Instant,
    pub(super) domain: Sid,
    pub(super) users: u32,
}

impl Counted {
    fn still_counts(&self, domain: &Sid) -> bool {
        self.domain == *domain && self.since.elapsed() < COUNTED
    }
}

fn short(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Runs `read` on a thread that may block.
fn read<T: Send + 'static>(
    read: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> Answer<Result<T, Unavailable>> {
    read_in_turn(&LISTS, read)
}

fn read_in_turn<T: Send + 'static>(
    turns: &'static Semaphore,
    read: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> Answer<Result<T, Unavailable>> {
    Answer::later(async move {
        let Ok(turn) = tokio::time::timeout(PATIENCE, turns.acquire()).await else {
            return Err(Unavailable(
                "cannot list accounts: too many listings are running, or NSS or a directory does not respond".into(),
            ));
        };
        let turn = turn.expect("the semaphore is never closed");
        let work = move || {
            // Released after the list has been read, because the thread is in use even if the caller has gone.
            let _turn = turn;
            read()
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => done.map_err(|error| Unavailable(format!("{error:#}"))),
            Err(error) => Err(Unavailable(format!("list of accounts: {error}"))),
        }
    })
}

impl Directory {
    pub(super) fn list_users(
        &self,
        after: Option<&str>,
        most: usize,
    ) -> Answer<Result<Vec<ListedAccount>, Unavailable>> {
        let (this, after) = (self.clone(), after.map(str::to_owned));
        read(move || Ok(this.page(after.as_deref(), most)?.iter().map(listed_account).collect()))
    }

    /// Implements [`Roster::count_users`](server::accounts::Roster::count_users).
    pub(super) fn users_counted(&self) -> Answer<Result<u32, Unavailable>> {
        let (this, domain) = (self.clone(), self.own.domain().sid());
        let kept = move |this: &Directory| this.counted.lock().filter(|counted| counted.still_counts(&domain));
        if let Some(counted) = kept(self) {
            return Answer::now(Ok(counted.users));
        }
        read(move || {
            // Another task may have counted while this one waited.
            if let Some(counted) = kept(&this) {
                return Ok(counted.users);
            }
            let begun = Instant::now();
            let users = this.count_now(&domain)?;
            let since = Instant::now();
            *this.counted.lock() = (since - begun > QUICK).then_some(Counted { since, domain, users });
            Ok(users)
        })
    }

    /// Counts the users. Blocks.
    fn count_now(&self, domain: &Sid) -> anyhow::Result<u32> {
        if let [only] = &*self.backends
            && let Some(count) = only.count(domain)?
        {
            return Ok(short(count));
        }
        let (mut count, mut after) = (0, None::<String>);
        loop {
            let page = self.page(after.as_deref(), PAGE)?;
            let Some(last) = page.last() else { return Ok(short(count)) };
            after = Some(last.record.name.clone());
            count += page.iter().filter(|entry| entry.sid.domain() == Some(*domain)).count();
        }
    }

    pub(super) fn list_groups(
        &self,
        after: Option<&Sid>,
        most: usize,
    ) -> Answer<Result<Vec<ListedGroup>, Unavailable>> {
        Answer::now(Ok(self.own.groups(after.copied(), most).iter().map(|group| listed_group(group)).collect()))
    }

    pub(super) fn listed_group(&self, sid: &Sid) -> Answer<Result<Option<ListedGroup>, Unavailable>> {
        self.group(GroupKey::Sid(*sid)).map(|found| found.map(|group| group.map(|group| listed_group(&group))))
    }

    pub(super) fn list_members(&self, group: &Sid, most: usize) -> Answer<Result<Vec<Sid>, Unavailable>> {
        let (this, group) = (self.clone(), self.group(GroupKey::Sid(*group)));
        Answer::later(async move {
            let Some(group) = group.await? else { return Ok(Vec::new()) };
            let users = read(move || Ok(members(group.gid, most)?)).await?;
            let mut sids = Vec::with_capacity(users.len());
            // With several back ends an earlier one may have the account.
            let known = match &*this.backends {
                [only] if this.users.only().is_none() => only.sids_of_users(users.clone()).await?,
                _ => HashMap::new(),
            };
            for (uid, _) in users {
                if let Some(sid) = known.get(&uid) {
                    sids.extend(*sid);
                    continue;
                }
                let user = UnixId::User(uid);
                // Users without an account are not visible to clients.
                sids.extend(Some(this.sid_of_id(user).await?).filter(|sid| *sid != user.plain_sid()));
            }
            Ok(sids)
        })
    }
}

fn listed_account(entry: &Entry) -> ListedAccount {
    let record = &entry.record;
    ListedAccount {
        name: record.name.clone(),
        sid: entry.sid,
        full_name: record.full_name.clone(),
        disabled: record.disabled,
        locked: record.locked,
        never_expires: record.never_expires,
    }
}

fn listed_group(group: &Group) -> ListedGroup {
    ListedGroup { principal: group.principal(), comment: group.comment.clone() }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_caller_keeps_its_permit_until_its_work_ends() {
        static TURNS: Semaphore = Semaphore::const_new(1);
        let (go_on, held) = mpsc::channel::<()>();
        let (begun, begins) = tokio::sync::oneshot::channel();
        let hangs = tokio::spawn(async move {
            let work = move || {
                _ = begun.send(());
                _ = held.recv();
                Ok(())
            };
            read_in_turn(&TURNS, work).await
        });
        begins.await.expect("it begins");
        hangs.abort();
        assert!(hangs.await.is_err_and(|ended| ended.is_cancelled()));
        assert_eq!(TURNS.available_permits(), 0);
        // The clock does not advance by itself while a thread is busy.
        let waits = tokio::spawn(async { read_in_turn(&TURNS, || Ok(1)).await });
        for _ in 0..=PATIENCE.as_secs() {
            tokio::task::yield_now().await;
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(waits.await.expect("no panic").is_err());
        drop(go_on);
        tokio::time::resume();
        assert_eq!(read_in_turn(&TURNS, || Ok(2)).await.expect("a permit"), 2);
    }
}
