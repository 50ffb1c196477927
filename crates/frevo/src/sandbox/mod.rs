//! What the serving process gives up: privileges, programs, and system calls that no file server makes.
//!
//! [`Sandbox::begin`] comes first in the process, [`Sandbox::close`] after it listens and before it serves. docs/sandbox.md
//! says what is given up and why.

mod calls;
mod filter;
mod threads;

use std::fmt;
use std::sync::Mutex;

use anyhow::{Context, Result};

use crate::config::Confinement;

/// What of the sandbox is in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// Nothing; the reason.
    Off(String),
    /// All of it.
    On,
    /// Not all of it; what is missing and why.
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

/// What of the sandbox is in force in this process.
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
    /// Gives up capabilities. To be called by the first thread while there is no other.
    ///
    /// # Errors
    /// They could not be given up.
    pub fn begin(needs: Confinement) -> Result<Sandbox> {
        if needs.wanted {
            localfs::identity::confine(needs.describes)
                .context("giving up privileges; `frevo:sandbox = no` in [global] keeps them")?;
        }
        Ok(Sandbox { wanted: needs.wanted })
    }

    /// Gives up privileged ports, programs and system calls, on all threads. Where the kernel has no filter of system calls,
    /// the server goes on without: the filter is a second line of defence, and no share depends on it.
    ///
    /// # Errors
    /// Privileged ports could not be given up.
    pub fn close(self) -> Result<()> {
        if !self.wanted {
            tracing::warn!("no sandbox: frevo:sandbox = no");
            set_state(State::Off("frevo:sandbox = no".to_owned()));
            return Ok(());
        }
        localfs::identity::release_ports().context("giving up privileged ports")?;
        let state = match filter::install() {
            Ok(()) => match threads::astray(localfs::identity::most_capabilities()) {
                threads if threads.is_empty() => State::On,
                threads => {
                    State::Partly(format!("threads that a library made keep privileges: {}", threads.join(", ")))
                }
            },
            Err(why) => State::Partly(format!("system calls are not filtered: {why:#}")),
        };
        match &state {
            State::On => tracing::info!("sandbox closed"),
            state => tracing::error!("sandbox {state}"),
        }
        set_state(state);
        Ok(())
    }
}
