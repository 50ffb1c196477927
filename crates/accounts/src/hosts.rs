//! Host names and netgroups in `hosts allow` and `hosts deny`, as this host resolves them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use server::accounts::Unavailable;
use server::answer::Answer;
use server::policy::HostNames;
use server::policy::hosts::HostRule;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::unix::names::{Names, Question, Reply};

/// How long a client waits for the names of all rules together.
const LIMIT: Duration = Duration::from_secs(10);

/// The names of hosts. They have threads of their own, because clients that have not logged on cause the queries.
pub struct Hosts(Arc<Names>);

impl Hosts {
    /// Returns the names that this host knows.
    pub fn of_host() -> Self {
        Hosts(Names::of_host())
    }

    /// Returns the names that `names` provides.
    pub fn new(names: Arc<Names>) -> Self {
        Hosts(names)
    }
}

/// Returns whether `address` matches `rule`; an error if that cannot be determined now.
async fn matches(names: Arc<Names>, rule: HostRule, address: IpAddr) -> Result<bool, Unavailable> {
    match rule {
        HostRule::Name(name) => {
            let addresses = names.ask(Question::Addresses(name)).await?;
            Ok(matches!(addresses, Some(Reply::Addresses(addresses)) if addresses.contains(&address)))
        }
        HostRule::Domain(domain) => match names.ask(Question::Host(address)).await? {
            Some(Reply::Host(name)) => Ok(name.to_lowercase().ends_with(&domain.to_lowercase())),
            _ => Ok(false),
        },
        HostRule::Netgroup(group) => match names.ask(Question::Host(address)).await? {
            Some(Reply::Host(host)) => Ok(names.ask(Question::HostNetgroup { host, group }).await?.is_some()),
            _ => Ok(false),
        },
        HostRule::All | HostRule::Network { .. } => Ok(false),
    }
}

impl HostNames for Hosts {
    fn resolve(&self, rules: Vec<HostRule>, address: IpAddr) -> Answer<Vec<Option<bool>>> {
        let names = self.0.clone();
        Answer::later(async move {
            let end = Instant::now() + LIMIT;
            let mut resolved = vec![None; rules.len()];
            let mut waiting = JoinSet::new();
            for (at, rule) in rules.into_iter().enumerate() {
                let names = names.clone();
                waiting.spawn(async move { (at, rule.clone(), matches(names, rule, address).await) });
            }
            while let Ok(Some(done)) = timeout_at(end, waiting.join_next()).await {
                match done {
                    Ok((at, _, Ok(matches))) => resolved[at] = Some(matches),
                    Ok((_, rule, Err(Unavailable(why)))) => {
                        tracing::warn!(?rule, why, "a name in `hosts allow` or `hosts deny` cannot be resolved");
                    }
                    Err(error) => tracing::error!(%error, "resolving `hosts allow` or `hosts deny`"),
                }
            }
            resolved
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    /// `box.test` is 10.0.0.1 and in the netgroup `office`; the service for `slow` never answers.
    fn hosts() -> Hosts {
        Hosts::new(Names::new(Box::new(|question| {
            Ok(match question {
                Question::Addresses(name) if name == "box.test" => Some(Reply::Addresses(vec![HERE])),
                Question::Addresses(name) if name == "slow" => loop {
                    std::thread::park();
                },
                Question::Addresses(_) => return Err(std::io::Error::other("no such name")),
                Question::Host(address) => (*address == HERE).then(|| Reply::Host("Box.test".into())),
                Question::HostNetgroup { host, group } => {
                    (host == "Box.test" && group == "office").then_some(Reply::Member)
                }
                _ => None,
            })
        })))
    }

    #[tokio::test]
    async fn rules_match_by_name_domain_and_netgroup() {
        let rules = vec![
            HostRule::Name("box.test".into()),
            HostRule::Name("gone.test".into()),
            HostRule::Domain(".Test".into()),
            HostRule::Domain(".example".into()),
            HostRule::Netgroup("office".into()),
            HostRule::Netgroup("other".into()),
        ];
        let expected = [Some(true), None, Some(true), Some(false), Some(true), Some(false)];
        assert_eq!(hosts().resolve(rules.clone(), HERE).await, expected);
        let expected = [Some(false), None, Some(false), Some(false), Some(false), Some(false)];
        assert_eq!(hosts().resolve(rules, IpAddr::from([10, 0, 0, 2])).await, expected);
    }

    #[test]
    fn a_name_that_is_never_resolved_delays_others_for_a_bounded_time() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let rules = vec![HostRule::Name("slow".into()), HostRule::Name("box.test".into())];
        let resolved = runtime.block_on(async {
            // A blocking thread keeps the paused clock from advancing by itself.
            let hosts = hosts();
            let answer = tokio::spawn(async move { hosts.resolve(rules, HERE).await });
            while !answer.is_finished() {
                tokio::time::advance(Duration::from_millis(100)).await;
                std::thread::yield_now();
            }
            answer.await
        });
        assert_eq!(resolved.expect("an answer")[0], None);
        runtime.shutdown_background();
    }
}
