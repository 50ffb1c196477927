//! Who has an account or a group here: lists for the pipe `samr`. Reading them may block, and is nothing that a logon waits
//! for, so a few at a time are read on threads that may.

use proto::dtyp::Sid;
use server::accounts::{ListedAccount, ListedGroup, Unavailable};
use server::answer::Answer;
use server::principals::UnixId;
use tokio::sync::Semaphore;

use super::Directory;
use super::backend::Entry;
use super::groups::{Group, GroupKey};
use super::unix::members::members;

/// How many lists are read at the same time.
static LISTS: Semaphore = Semaphore::const_new(2);

/// Runs `read` where it may block.
fn read<T: Send + 'static>(
    read: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> Answer<Result<T, Unavailable>> {
    Answer::later(async move {
        let _turn = LISTS.acquire().await.expect("nobody closes it");
        match tokio::task::spawn_blocking(read).await {
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
            let uids = read(move || Ok(members(group.gid, most)?)).await?;
            let mut sids = Vec::with_capacity(uids.len());
            for user in uids.into_iter().map(UnixId::User) {
                // Whoever has no account is nobody whom clients know.
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
    }
}

fn listed_group(group: &Group) -> ListedGroup {
    ListedGroup { principal: group.principal(), comment: group.comment.clone() }
}
