//! Lists of accounts: page by page, in the order of their names.
//!
//! A directory returns entries in no order. All names are fetched once (RFC 2696, page by page) and kept sorted while a
//! list is read. The accounts of each page are then fetched by name. A list of 300,000 accounts takes some MiB.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures_util::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use proto::dtyp::Sid;
use server::policy::fold;

use super::entry::{ATTRIBUTES, Person};
use super::people::{ACCOUNT, People, found};
use super::worker::Worker;
use crate::backend::Entry;
use ldap::message::{Filter, Request, Search, SearchResultEntry};

/// How long the names are cached: a list that is read more slowly is fetched from the directory again.
const KEPT: Duration = Duration::from_secs(60);
/// Names per search.
const AT_A_TIME: usize = 200;
/// Maximum number of entries.
const MOST: usize = 5_000_000;

/// Concurrent look-ups of UNIX users of a page.
const USERS_AT_A_TIME: usize = 8;

/// The content of a list of accounts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    /// The data of the entries.
    Records,
    /// The entries with their UNIX users.
    Users,
}

/// The sorted folded names of the last list that was read.
#[derive(Default)]
pub(super) struct Listing(Mutex<Option<(Instant, Vec<String>)>>);

impl Listing {
    /// Returns up to `count` accounts after `after`; fewer only at the end, even if many are invalid, because merged
    /// lists of several back ends continue after the last name of all.
    pub(super) fn page(
        &self,
        worker: &Worker,
        people: &std::sync::Arc<People>,
        after: Option<&str>,
        count: usize,
        whole: Whole,
    ) -> Result<Vec<Entry>> {
        let (mut page, mut after) = (Vec::new(), after.map(str::to_owned));
        while page.len() < count {
            let names = self.names_after(worker, people, after.as_deref(), count - page.len())?;
            let Some(last) = names.last() else { break };
            after = Some(last.clone());
            let people = people.clone();
            page.extend(worker.wait(async move { people.entries(&names, whole).await })?);
        }
        Ok(page)
    }

    /// Returns up to `count` folded names after `after`.
    fn names_after(
        &self,
        worker: &Worker,
        people: &std::sync::Arc<People>,
        after: Option<&str>,
        count: usize,
    ) -> Result<Vec<String>> {
        let mut kept = self.0.lock();
        if after.is_none() || kept.as_ref().is_none_or(|(since, _)| since.elapsed() > KEPT) {
            let people = people.clone();
            *kept = Some((Instant::now(), worker.wait(async move { people.names().await })?));
        }
        let (_, names) = kept.as_ref().expect("the cache was just filled");
        let after = after.map(fold);
        let start = after.map_or(0, |after| names.partition_point(|name| *name <= after));
        let some: Vec<String> = names[start..].iter().take(count).cloned().collect();
        if some.is_empty() {
            *kept = None;
        }
        Ok(some)
    }
}

impl People {
    /// Returns the sorted folded names of all accounts.
    async fn names(&self) -> Result<Vec<String>> {
        let filter = Filter::And(vec![Filter::Present("uid"), Filter::Equal("objectClass", ACCOUNT.into())]);
        let mut names = Vec::new();
        let note = |entry: SearchResultEntry| names.extend(entry.first("uid").map(fold));
        self.each(&self.settings.suffix, filter, &["uid"], note).await?;
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Returns the number of accounts with a SID of `domain`.
    pub(super) async fn count(&self, domain: Sid) -> Result<usize> {
        let filter = Filter::And(vec![Filter::Present("uid"), Filter::Equal("objectClass", ACCOUNT.into())]);
        let mut count = 0;
        let note = |entry: SearchResultEntry| {
            let sid = entry.first("sambaSID").and_then(|text| text.parse::<Sid>().ok());
            count += usize::from(sid.is_some_and(|sid| sid.domain() == Some(domain)));
        };
        self.each(&self.settings.suffix, filter, &["sambaSID"], note).await?;
        Ok(count)
    }

    /// Returns all matching entries below `base`, in no order.
    pub(super) async fn every(
        &self,
        base: &str,
        filter: Filter,
        attributes: &'static [&'static str],
    ) -> Result<Vec<SearchResultEntry>> {
        let mut all = Vec::new();
        self.each(base, filter, attributes, |entry| all.push(entry)).await?;
        Ok(all)
    }

    /// Passes each matching entry below `base` to `note`, page by page.
    async fn each(
        &self,
        base: &str,
        filter: Filter,
        attributes: &'static [&'static str],
        mut note: impl FnMut(SearchResultEntry),
    ) -> Result<()> {
        let size = i32::from(self.settings.page_size);
        let search = Search { size_limit: 0, ..self.search_for(base, filter, attributes, 0) };
        // A page's cookie is valid only on its connection.
        let connection = self.servers.pin(self.settings.timeout).await?;
        let (mut cookie, mut count) = (Vec::new(), 0);
        loop {
            let search = Search { page: Some((size, cookie)), ..search.clone() };
            let request = Request::Search(&search);
            let mut reply = tokio::time::timeout(self.settings.timeout, connection.ask(&request)).await??;
            cookie = std::mem::take(&mut reply.outcome.cookie);
            let entries = found(reply, base)?;
            count += entries.len();
            entries.into_iter().for_each(&mut note);
            ensure!(count <= MOST, "the directory has more than {MOST} accounts or groups");
            if cookie.is_empty() {
                return Ok(());
            }
        }
    }

    /// Returns the accounts of these sorted folded names, in order. Accounts removed meanwhile are omitted, and so are
    /// those that have one of the names only as a second name, because a list continues after the last name.
    async fn entries(&self, names: &[String], whole: Whole) -> Result<Vec<Entry>> {
        let mut people = Vec::with_capacity(names.len());
        for some in names.chunks(AT_A_TIME) {
            let named = some.iter().map(|name| Filter::Equal("uid", name.clone())).collect();
            let filter = Filter::And(vec![Filter::Or(named), Filter::Equal("objectClass", ACCOUNT.into())]);
            for found in self.search(&self.settings.suffix, filter, ATTRIBUTES, 0).await? {
                match Person::read(&found) {
                    Ok(person) if names.binary_search(&fold(&person.record.name)).is_err() => {}
                    Ok(person) => people.push(person),
                    Err(why) => tracing::warn!("invalid account in the LDAP directory: {why}"),
                }
            }
        }
        let mut entries: Vec<Entry> = match whole {
            Whole::Records => people.iter().map(Person::entry).collect(),
            Whole::Users => {
                let mut shown = Vec::with_capacity(people.len());
                for person in &people {
                    shown.push(self.shown(person));
                }
                futures_util::stream::iter(shown).buffered(USERS_AT_A_TIME).try_collect().await?
            }
        };
        entries.sort_by_cached_key(|entry| fold(&entry.record.name));
        Ok(entries)
    }
}
