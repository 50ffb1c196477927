//! The sandbox of the serving process: it gives up privileges, executing programs, and system calls that a file server
//! does not need.
//!
//! [`Sandbox::begin`] must be called first in the process, [`Sandbox::close`] after it listens and before it serves.
//! docs/sandbox.md describes what is given up and why. A new dependency, library or feature that executes programs,
//! mounts file systems, or creates devices or namespaces cannot be part of `frevo serve`.

mod calls;
mod filter;
mod threads;

use std::fmt;
use std::sync::Mutex;

use anyhow::{Context, Result};

use smbconf::Confinement;

/// State of the sandbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// Not in force, with the reason.
    Off(String),
    /// Completely in force.
    On,
    /// Partly in force, with what is missing and why.
    Partly(String),
}

impl fmt::Display for State {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Off(why) => write!(out, "off ({why})"),
            State::On => write!(out, "on"),
            State::Partly(missing) => write!(out, "partly: {missing}"),
        }
    }
}

static STATE: Mutex<State> = Mutex::new(State::Off(String::new()));

/// Returns the state of this process's sandbox.
pub fn state() -> State {
    match &*STATE.lock().unwrap_or_else(std::sync::PoisonError::into_inner) {
        State::Off(why) if why.is_empty() => State::Off("not closed yet".to_owned()),
        state => state.clone(),
    }
}

fn set_state(state: State) {
    *STATE.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = state;
}

/// The sandbox of a process that is starting.
#[must_use]
pub struct Sandbox {
    wanted: bool,
}

impl Sandbox {
    /// Gives up capabilities. Must be called by the first thread while there is no other.
    ///
    /// # Errors
    /// If they could not be given up.
    pub fn begin(needs: Confinement) -> Result<Sandbox> {
        if needs.wanted {
            localfs::identity::confine(needs.describes)
                .context("cannot give up privileges; set `frevo:sandbox = no` in [global] to keep them")?;
        }
        Ok(Sandbox { wanted: needs.wanted })
    }

    /// Gives up privileged ports, executing programs, and system calls on all threads. If the kernel does not support
    /// system call filters, the server continues without one, because the filter is a second line of defence and no
    /// share depends on it.
    ///
    /// # Errors
    /// If privileged ports could not be given up.
    pub fn close(self) -> Result<()> {
        if !self.wanted {
            tracing::warn!("no sandbox because of frevo:sandbox = no");
            set_state(State::Off("frevo:sandbox = no".to_owned()));
            return Ok(());
        }
        localfs::identity::release_ports().context("cannot give up privileged ports")?;
        let state = match filter::install() {
            Ok(()) => match threads::astray(localfs::identity::most_capabilities()) {
                threads if threads.is_empty() => State::On,
                threads => {
                    State::Partly(format!("threads created by a library keep privileges: {}", threads.join(", ")))
                }
            },
            Err(why) => State::Partly(format!("system calls are not filtered: {why:#}")),
        };
        match &state {
            State::On => tracing::info!("the sandbox is in force"),
            state => tracing::error!("sandbox {state}"),
        }
        set_state(state);
        Ok(())
    }
}
