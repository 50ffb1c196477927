//! Another configuration for the running server.

use std::sync::{MutexGuard, PoisonError};

use anyhow::{Result, bail};
use smbconf::Loaded;

use super::completion::complete;
use super::{Operations, Plan, faults};
use crate::log::LogLevel;

impl Operations {
    /// Returns the plan. While a thread has it, no other thread changes the configuration.
    pub(super) fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the configuration again.
    pub(super) fn read_again(&self) -> Result<String> {
        self.log.reopen()?;
        self.audits.reopen();
        let mut plan = self.plan();
        match plan.load() {
            Ok(loaded) => self.apply(&mut plan, loaded),
            Err(problems) => bail!("the configuration has errors, the previous one remains in effect\n{problems}"),
        }
    }

    /// Puts a configuration into effect, and returns a one-line summary.
    pub(super) fn apply(&self, plan: &mut Plan, mut loaded: Loaded) -> Result<String> {
        if plan.args.log_level.is_none() {
            self.log.set_level(&LogLevel::from(&loaded.daemon.log_level))?;
        }
        let faults = faults::keep_former(&mut loaded, &self.server.policy());
        // Its answers are cached.
        loaded.policy.host_names.clone_from(&self.server.policy().host_names);
        let shares = loaded.policy.shares.len();
        plan.sections = loaded.sections;
        self.winbind.configure(loaded.policy.membership.as_ref(), loaded.daemon.idmap.clone());
        self.server.reload(complete(loaded.policy, &loaded.daemon, &self.accounts, &self.state, self.means));
        self.interfaces.choose(&loaded.daemon.interfaces);
        self.discovery.configure(&self.server.policy(), &loaded.daemon);
        let later = self.daemon.changed_until_restart(&loaded.daemon);
        Ok(match later.is_empty() {
            true => format!("configuration reloaded, {shares} shares{faults}"),
            false => format!(
                "configuration reloaded, {shares} shares{faults}; restart the server to apply changes of parameters \
                 that are read only at the start: {}",
                later.join(", ")
            ),
        })
    }
}
