//! Advice about memory and limits of the system.

use report::units::{bytes, count, seconds};
use server::policy::Limits;

use super::{Advice, Facts, Location, Report};

/// File descriptors that a server with some hundred clients needs.
const DESCRIPTORS: u64 = 65_536;
/// File descriptors that the package's unit permits.
const RECOMMENDED_DESCRIPTORS: u64 = 1_048_576;
/// Most memory that the server should be allowed, as a part of all: the cache of files needs the remainder.
const LARGEST_PART: u64 = 2;
/// The setting for how long an idle processor of a virtual machine looks for work, and its default in Linux, in
/// nanoseconds.
const HALT_POLL: &str = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";
const HALT_POLLING: u64 = 200_000;
/// A wake-up that takes longer is a large part of a small request, in seconds. Without a halted processor it takes 2 to
/// 5 microseconds.
const SLOW_WAKE_UP: f64 = 10e-6;

pub(super) fn advise(facts: &Facts<'_>, advised: &mut Report) {
    descriptors(facts, advised);
    watches(facts, advised);
    memory(facts, advised);
    wake_ups(facts, advised);
}

/// An idle processor of a virtual machine that halts at once.
fn wake_ups(facts: &Facts<'_>, advised: &mut Report) {
    let host = &facts.measured.host;
    let (Some(time), Some(polling)) = (host.wake_up, host.halt_polling) else { return };
    if time < SLOW_WAKE_UP || polling >= HALT_POLLING {
        return;
    }
    let because = format!(
        "a thread on an idle processor wakes after {}; this virtual machine's processors halt as soon as they are \
         idle, and the host has to start them again",
        seconds(time)
    );
    let effect = format!(
        "shorter answers to clients that send one request at a time; an idle processor takes up to {} of the host's \
         time before it halts",
        seconds(HALT_POLLING as f64 * 1e-9)
    );
    let line = format!("w {HALT_POLL} - - - - {HALT_POLLING}");
    let advice = Advice::new(Location::Sysfs, HALT_POLL, polling, HALT_POLLING).because(because).effect(effect);
    advised.recommend(Advice { line, ..advice });
}

fn descriptors(facts: &Facts<'_>, advised: &mut Report) {
    let host = &facts.measured.host;
    let limit = host.descriptors_of_service.unwrap_or(host.descriptors);
    if limit >= DESCRIPTORS {
        return;
    }
    let mut limits = Limits::default();
    limits.fit_descriptors(usize::try_from(limit).unwrap_or(usize::MAX));
    let clients = format!(
        "{} descriptors, which are for {} connections and {} open files",
        count(limit),
        count(limits.connections as u64),
        count(limits.opens as u64)
    );
    if host.descriptors_of_service.is_none() {
        advised.note(format!(
            "a server that this shell starts may use {clients}; the unit of the package permits {}",
            count(RECOMMENDED_DESCRIPTORS)
        ));
        return;
    }
    let advice = Advice::new(Location::Unit, "LimitNOFILE", limit, RECOMMENDED_DESCRIPTORS);
    let line = format!("LimitNOFILE={RECOMMENDED_DESCRIPTORS}");
    let advice = advice.because(format!("the running service may use {clients}"));
    advised.recommend(Advice { line, ..advice }.effect("more clients and open files"));
}

fn watches(facts: &Facts<'_>, advised: &mut Report) {
    let Some(allowed) = facts.measured.host.watches else { return };
    let wanted = localfs::WATCHED_DIRECTORIES as u64;
    let is_used = facts.policy.change_notify && facts.policy.kernel_change_notify;
    if !is_used || allowed >= wanted {
        return;
    }
    let because = format!(
        "the kernel lets one user watch {} directories, and the server watches up to {} for its clients",
        count(allowed),
        count(wanted)
    );
    let advice = Advice::new(Location::Sysctl, "fs.inotify.max_user_watches", allowed, wanted).because(because);
    advised.recommend(advice.effect("clients that watch large trees are notified of changes by local programs"));
}

fn memory(facts: &Facts<'_>, advised: &mut Report) {
    let (memory, limit) = (facts.measured.host.memory, facts.daemon.memory_limit);
    let Some(limit) = limit.map(|limit| limit as u64).filter(|limit| memory > 0 && *limit > memory / LARGEST_PART)
    else {
        return;
    };
    let recommended = (memory / LARGEST_PART).max(Limits::LEAST_MEMORY as u64) >> 20;
    if recommended << 20 >= limit {
        return;
    }
    let because = format!("the server may use {} of {}", bytes(limit as f64), bytes(memory as f64));
    let setting = "frevo:memory limit";
    let advice = Advice::new(Location::Global, setting, format!("{}M", limit >> 20), format!("{recommended}M"));
    let effect = "clients are refused before the kernel ends the server, and the cache of files has memory";
    advised.recommend(advice.because(because).effect(effect));
}
