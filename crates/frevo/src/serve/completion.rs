//! Completes a policy with settings from outside the configuration, and adapts it to the process's resources.

use std::sync::Arc;

use accounts::Directory;
use accounts::hosts::Hosts;
use accounts::state_dir::StateDir;
use accounts::username_map::FileMap;
use server::policy::Policy;
use smbconf::Daemon;

use super::{Means, privileges};
use crate::acl::calibrate::saved;

/// Completes the policy of the server, and lets it complete those of sessions.
pub(super) fn complete(
    mut policy: Policy,
    daemon: &Daemon,
    accounts: &Directory,
    state: &Arc<StateDir>,
    means: Means,
) -> Policy {
    means.bound(&mut policy.limits, daemon.memory_limit);
    localfs::bound_indexes(policy.limits.index_bytes());
    localfs::bound_workers(policy.limits.worker_threads);
    policy.username_map = daemon.username_map.clone().map(|path| {
        let users = accounts.users().clone();
        Arc::new(FileMap::new(path, daemon.username_map_cache_time, users)) as _
    });
    if policy.host_names.is_none() {
        policy.host_names = Some(Arc::new(Hosts::of_host()));
    }
    policy.share_acls = Some(Arc::new(accounts.clone()));
    let policy = complete_shares(policy, state);
    if let Some(sessions) = &policy.sessions {
        let (limits, username_map) = (policy.limits.clone(), policy.username_map.clone());
        let (host_names, share_acls, state) = (policy.host_names.clone(), policy.share_acls.clone(), state.clone());
        sessions.complete_with(Box::new(move |session| {
            let (username_map, host_names, share_acls) = (username_map.clone(), host_names.clone(), share_acls.clone());
            let session = Policy { limits: limits.clone(), username_map, host_names, share_acls, ..session };
            complete_shares(session, &state)
        }));
    }
    policy
}

fn complete_shares(mut policy: Policy, state: &StateDir) -> Policy {
    saved::fill_in(&mut policy, state, &mut |share, error| {
        tracing::warn!(share = share.name, "frevo:acl store = auto has no effect: {error:#}");
    });
    privileges::within_our_means(policy)
}
