//! Another configuration for the running server.

use std::sync::{MutexGuard, PoisonError};

use anyhow::{Result, bail};
use smbconf::added::FILE_NAME;
use smbconf::{Code, Loaded, Problem};

use super::completion::complete;
use super::{Operations, Plan, faults};
use crate::log::LogLevel;
use crate::share::file_of;

impl Operations {
    /// Returns the plan. While a thread has it, no other thread changes the configuration.
    pub(super) fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the configuration again.
    pub(super) fn read_again(&self) -> Result<String> {
        self.audits.reopen();
        self.log.reopen()?;
        let mut plan = self.plan();
        match plan.load() {
            Ok(loaded) => {
                self.check_added(&plan, &loaded)?;
                self.apply(&mut plan, loaded)
            }
            Err(problems) => bail!("the configuration has errors, the previous one remains in effect\n{problems}"),
        }
    }

    /// Fails if the file of the added shares cannot be read, so that those shares stay.
    fn check_added(&self, plan: &Plan, loaded: &Loaded) -> Result<()> {
        let file = file_of(self.state.path());
        let has_added = plan.sections.iter().any(|(_, place)| place.as_ref().is_some_and(|place| *place.file == *file));
        let unreadable = |problem: &&Problem| problem.code == Code::Unreadable && problem.subject == FILE_NAME;
        match loaded.warnings.0.iter().find(unreadable) {
            Some(problem) if has_added => {
                bail!("{}; {}; the previous configuration remains in effect", problem.message, problem.remedy)
            }
            _ => Ok(()),
        }
    }

    /// Puts a configuration into effect, and returns a one-line summary.
    pub(super) fn apply(&self, plan: &mut Plan, mut loaded: Loaded) -> Result<String> {
        if plan.args.log_level.is_none()
            && let Err(error) = self.log.set_level(&LogLevel::from(&loaded.daemon.log_level))
        {
            tracing::error!("cannot set the log level: {error:#}");
        }
        let faults = faults::keep_former(&mut loaded, &self.server.policy());
        // Its answers are cached.
        loaded.policy.host_names.clone_from(&self.server.policy().host_names);
        let shares = loaded.policy.shares.len();
        plan.sections = loaded.sections;
        self.winbind.configure(loaded.policy.membership.as_ref(), loaded.daemon.idmap.clone());
        self.server.reload(complete(loaded.policy, &loaded.daemon, &self.accounts, &self.state, self.means));
        self.interfaces.choose(&loaded.daemon.interfaces);
        self.print_system.configure(loaded.daemon.printing.clone());
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
