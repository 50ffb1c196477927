//! Returning memory that clients no longer use to the system.

use std::sync::Arc;
use std::time::Duration;

use server::state::Server;

use crate::input::Inputs;
use crate::limits;

/// How often unused buffers are released, and how many bytes of memory beyond the clients' use are worth returning to
/// the system.
const RELEASE_INTERVAL: Duration = Duration::from_secs(5);
const WORTH_RELEASING: usize = 2 << 20;
/// Memory is released once more after this many further intervals. Idle worker threads have then ended, and the memory
/// that the allocator kept for each of them is free.
const REPEAT_AFTER: u32 = 3;

/// Periodically returns memory to the system that clients no longer use. Otherwise, spare buffers and the memory that
/// the allocator keeps after a busy time would stay with the process. Never returns.
pub(super) async fn release_memory(server: Arc<Server>, inputs: Arc<Inputs>) {
    // Memory of the process beyond what clients hold; `least` is the minimum since memory was last released.
    let own = || limits::resident().map(|resident| resident.saturating_sub(server.accounting.memory()));
    let mut least = own().unwrap_or(0);
    let mut until_repeat = None;
    loop {
        tokio::time::sleep(RELEASE_INTERVAL).await;
        let unused = server.release_unused_buffers() + inputs.release_unused();
        localfs::close_unused_pipes();
        let Some(now) = own() else { continue };
        least = least.min(now);
        until_repeat = until_repeat.and_then(|left: u32| left.checked_sub(1));
        let first = now >= least + WORTH_RELEASING || unused >= WORTH_RELEASING;
        if first || until_repeat == Some(0) {
            // This may take milliseconds and blocks other threads that allocate from the same heap.
            let _ = tokio::task::spawn_blocking(limits::release_memory).await;
            least = own().unwrap_or(now);
        }
        if first {
            until_repeat = Some(REPEAT_AFTER);
        }
    }
}
