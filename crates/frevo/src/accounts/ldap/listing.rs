//! Lists of accounts: page by page, in the order of their names.
//!
//! A directory gives entries in no order. All names are asked for once (RFC 2696, page by page) and kept sorted while a
//! list is read; the accounts of each page are asked for by their names. So a list of 300,000 takes some MiB.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures_util::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use proto::dtyp::Sid;
use server::policy::fold;

use super::entry::{ATTRIBUTES, Person};
use super::message::{Filter, Found, Request, Search};
use super::people::{ACCOUNT, People, found};
use super::worker::Worker;
use crate::accounts::backend::Entry;

/// How long the names are good for: a list that is read more slowly is read from the directory again.
const KEPT: Duration = Duration::from_secs(60);
/// Names in one search.
const AT_A_TIME: usize = 200;
/// The most entries that are taken.
const MOST: usize = 5_000_000;

/// UNIX users of a page that are asked for at the same time.
const USERS_AT_A_TIME: usize = 8;

/// What a list tells of accounts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    /// What their entries say.
    Records,
    /// And who they are on Linux.
    Users,
}

/// The names of the list that was read last, folded, in their order.
#[derive(Default)]
pub(super) struct Listing(Mutex<Option<(Instant, Vec<String>)>>);

impl Listing {
    /// Up to `count` accounts after `after`; fewer only where there are no more, however many cannot be used: whoever puts
    /// lists of several back ends together goes on after the last name of all.
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

    /// Up to `count` folded names after `after`.
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
        let (_, names) = kept.as_ref().expect("just filled");
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
    /// The folded names of all accounts, in their order.
    async fn names(&self) -> Result<Vec<String>> {
        let filter = Filter::And(vec![Filter::Present("uid"), Filter::Equal("objectClass", ACCOUNT.into())]);
        let mut names = Vec::new();
        let note = |entry: Found| names.extend(entry.first("uid").map(fold));
        self.each(&self.settings.suffix, filter, &["uid"], note).await?;
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// How many accounts have a SID of `domain`.
    pub(super) async fn count(&self, domain: Sid) -> Result<usize> {
        let filter = Filter::And(vec![Filter::Present("uid"), Filter::Equal("objectClass", ACCOUNT.into())]);
        let mut count = 0;
        let note = |entry: Found| {
            let sid = entry.first("sambaSID").and_then(|text| text.parse::<Sid>().ok());
            count += usize::from(sid.is_some_and(|sid| sid.domain() == Some(domain)));
        };
        self.each(&self.settings.suffix, filter, &["sambaSID"], note).await?;
        Ok(count)
    }

    /// All entries below `base` that fit, in no order.
    pub(super) async fn every(
        &self,
        base: &str,
        filter: Filter,
        attributes: &'static [&'static str],
    ) -> Result<Vec<Found>> {
        let mut all = Vec::new();
        self.each(base, filter, attributes, |entry| all.push(entry)).await?;
        Ok(all)
    }

    /// Hands over each entry below `base` that fits, page by page.
    async fn each(
        &self,
        base: &str,
        filter: Filter,
        attributes: &'static [&'static str],
        mut note: impl FnMut(Found),
    ) -> Result<()> {
        let size = i32::from(self.settings.page_size);
        let search = Search { size_limit: 0, ..self.search_for(base, filter, attributes, 0) };
        // A page's cookie is good on the connection that it came over.
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

    /// The accounts of these folded and sorted names, in their order; of those removed meanwhile, none, and none that has
    /// one of them only as a second name: a list goes on after the last.
    async fn entries(&self, names: &[String], whole: Whole) -> Result<Vec<Entry>> {
        let mut people = Vec::with_capacity(names.len());
        for some in names.chunks(AT_A_TIME) {
            let named = some.iter().map(|name| Filter::Equal("uid", name.clone())).collect();
            let filter = Filter::And(vec![Filter::Or(named), Filter::Equal("objectClass", ACCOUNT.into())]);
            for found in self.search(&self.settings.suffix, filter, ATTRIBUTES, 0).await? {
                match Person::read(&found) {
                    Ok(person) if names.binary_search(&fold(&person.record.name)).is_err() => {}
                    Ok(person) => people.push(person),
                    Err(why) => tracing::warn!("an account cannot be used: {why}"),
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
