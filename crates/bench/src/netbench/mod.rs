//! `frevo-bench netbench`: a recorded NetBench run, replayed by any number of clients.
//!
//! [`load`] reads the recorded run, [`plan`] translates it to SMB 2 requests, and [`replay`] sends them and checks the
//! answers.

pub mod kind;
pub mod load;
mod operation;
pub mod plan;
pub mod replay;
mod request;
mod tree;

use std::sync::Arc;

use anyhow::{Context, Result};

use crate::method::Server;
use plan::{Names, Plan};
use replay::Replay;

/// The clients' directory, relative to the share.
pub const BASE: &str = "frevo-bench-netbench";

/// Connects `count` clients and sets them to the first line of the load called `load`. Deletes what an interrupted run
/// left, and creates the directories that all clients share.
pub async fn set_up(server: &Server, plan: &Arc<Plan>, load: &str, count: usize, seed: u64) -> Result<Vec<Replay>> {
    let mut first = server.connect().await?;
    tree::delete(&mut first, BASE).await?;
    let names = Names::new(plan, BASE, 1);
    first.make_directory(BASE).await.with_context(|| format!("cannot create {BASE}"))?;
    for path in &plan.shared {
        let path = names.text(*path);
        first.make_directory(path).await.with_context(|| format!("cannot create {path}"))?;
    }
    first.log_off().await?;
    let mut replays = Vec::with_capacity(count);
    for (number, client) in (1..).zip(server.connect_many(count).await?) {
        replays.push(Replay::new(client, Arc::clone(plan), load, BASE, number, seed));
    }
    Ok(replays)
}

/// Logs the clients off and deletes their files.
pub async fn clean_up(server: &Server, replays: Vec<Replay>) -> Result<()> {
    for replay in replays {
        replay.log_off().await?;
    }
    let mut client = server.connect().await?;
    tree::delete(&mut client, BASE).await?;
    Ok(client.log_off().await?)
}
