//! The print system of the host.

use std::sync::Arc;

use ::printing::{Helper, Printing, Settings};
use anyhow::{Context, Result};
use server::policy::printing::CommandLine;

/// Starts the process that executes the commands of print shares, if there are any. Must be called while the process
/// has one thread, before it gives up privileges.
pub(super) fn start_helper(commands: Vec<CommandLine>) -> Result<Option<Helper>> {
    if commands.is_empty() {
        return Ok(None);
    }
    Helper::start(commands).map(Some).context("cannot start the print helper")
}

/// Creates the print system, on the current runtime.
pub(super) fn start(settings: &Settings, helper: Option<Helper>) -> Result<Arc<Printing>> {
    Ok(Arc::new(Printing::new(settings.clone(), helper).context("cannot use the print helper")?))
}
