//! `frevo bench netbench`: a recorded NetBench run, replayed by any number of clients.
//!
//! [`load`] reads the recorded run, [`plan`] says which SMB 2 requests stand for it, [`replay`] sends them and looks at
//! the answers.

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

/// Where the clients' directories are, below the share.
pub const BASE: &str = "frevo-bench-netbench";

/// `count` clients, connected and before the first line of the load called `load`. What an interrupted run left is
/// deleted, and the directories that all clients share are made.
pub async fn set_up(server: &Server, plan: &Arc<Plan>, load: &str, count: usize, seed: u64) -> Result<Vec<Replay>> {
    let mut first = server.connect().await?;
    tree::delete(&mut first, BASE).await?;
    let names = Names::new(plan, BASE, 1);
    first.make_directory(BASE).await.with_context(|| format!("cannot make {BASE}"))?;
    for path in &plan.shared {
        let path = names.text(*path);
        first.make_directory(path).await.with_context(|| format!("cannot make {path}"))?;
    }
    first.log_off().await?;
    let mut replays = Vec::with_capacity(count);
    for (number, client) in (1..).zip(server.connect_many(count).await?) {
        replays.push(Replay::new(client, Arc::clone(plan), load, BASE, number, seed));
    }
    Ok(replays)
}

/// Ends the clients and deletes what they left.
pub async fn clean_up(server: &Server, replays: Vec<Replay>) -> Result<()> {
    for replay in replays {
        replay.log_off().await?;
    }
    let mut client = server.connect().await?;
    tree::delete(&mut client, BASE).await?;
    Ok(client.log_off().await?)
}
