//! Shares with errors: they are not served, and the others are.

use std::collections::HashSet;
use std::sync::Arc;

use server::policy::{Policy, fold};

use super::Loaded;
use super::problem::Problems;

/// Makes the shares with errors unavailable. They stay in the policy, so that their names are not those of home shares.
pub(super) fn disable(policy: &mut Policy, problems: &Problems) {
    for name in faulty(problems) {
        if name == "homes" {
            policy.homes = None;
        } else if name == "printers" {
            policy.printers = None;
        } else if let Some(share) = policy.shares.get_mut(&name) {
            Arc::make_mut(share).available = false;
        }
    }
}

/// Returns the folded names of the shares with errors.
fn faulty(problems: &Problems) -> HashSet<String> {
    problems.faulty_shares().map(fold).collect()
}

impl Loaded {
    /// Replaces the shares with errors by those of `former`, the policy in effect. Returns the names of these shares.
    pub fn keep_former(&mut self, former: &Policy) -> Vec<String> {
        let mut names = Vec::new();
        for name in faulty(&self.warnings) {
            if name == "homes" && former.homes.is_some() {
                self.policy.homes.clone_from(&former.homes);
                names.push(name);
            } else if name == "printers" && former.printers.is_some() {
                self.policy.printers.clone_from(&former.printers);
                names.push(name);
            } else if let Some(share) = former.shares.get(&name).filter(|share| share.available) {
                names.push(share.name.clone());
                self.policy.shares.insert(name, share.clone());
            }
        }
        names.sort();
        names
    }
}
