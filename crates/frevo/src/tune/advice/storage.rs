//! Advice about the file system of the share.

use report::units::{per_second, seconds};
use server::policy::AclStore;

use super::{Advice, Facts, Location, Report};

/// A flush that takes longer is slow: flash with a cache that survives a power failure needs less than a millisecond, a
/// disk about ten.
const SLOW_FLUSH: f64 = 0.02;
/// Gain of random reads that is worth more threads.
const GAIN: f64 = 1.25;
/// The range of `frevo:worker threads`.
const MOST_THREADS: usize = 192;
/// Part of the threads that one user may occupy.
const OF_ONE_USER: usize = 4;
/// Bytes of the longest attribute in Linux.
const LONGEST_ATTRIBUTE: usize = 65_536;
/// Entries of the directory in the note about names: as many as people complain about.
const MANY_NAMES: f64 = 100_000.0;
/// A time to read such a directory that users notice.
const NOTICED: f64 = 1.0;

pub(super) fn advise(facts: &Facts<'_>, advised: &mut Report) {
    acl_store(facts, advised);
    worker_threads(facts, advised);
    flushes(facts, advised);
    attributes(facts, advised);
    features(facts, advised);
}

/// `frevo:acl store`, if it was measured.
fn acl_store(facts: &Facts<'_>, advised: &mut Report) {
    let Some(measured) = &facts.measured.acl_store else { return };
    let current = &facts.share.acls.acl_store;
    if current.entries().to_string() == *measured {
        return;
    }
    let because = match measured.as_str() {
        "never" => "a check that converts the POSIX ACL is as fast as one that reads a stored descriptor".to_owned(),
        range => format!(
            "with warm caches, four accesses are faster with a stored descriptor for files with {} POSIX ACL entries",
            if range == "always" { "any number of" } else { range }
        ),
    };
    let effect = match (measured.as_str(), current) {
        ("never", _) => "no descriptors are written that save no time",
        (_, AclStore::Auto(_)) => {
            "faster access checks; `frevo acl calibrate` also measures with cold caches and sets the policy for `auto`"
        }
        _ => "faster access checks",
    };
    let advice = Advice::new(Location::Share, "frevo:acl store", current, measured);
    advised.recommend(advice.because(because).effect(effect));
}

/// `frevo:worker threads`: one user must be able to use what the disk can do.
fn worker_threads(facts: &Facts<'_>, advised: &mut Report) {
    let storage = &facts.measured.storage;
    let current = facts.policy.limits.worker_threads;
    let of_one_user = current / OF_ONE_USER;
    let (Some(knee), Some(now)) = (storage.knee(), storage.reads_with(of_one_user)) else { return };
    if knee.threads <= of_one_user || knee.per_second < now.per_second * GAIN {
        return;
    }
    let recommended = (knee.threads * OF_ONE_USER).min(MOST_THREADS);
    if recommended <= current {
        return;
    }
    let because = format!(
        "random reads of 4 KiB: {} with {} threads, {} with {}; one user occupies at most {of_one_user} of {current} \
         threads",
        per_second(now.per_second),
        now.threads,
        per_second(knee.per_second),
        knee.threads
    );
    let gain = knee.per_second / now.per_second;
    let effect = format!("up to {gain:.1} times as many reads of data that is not cached, for one user");
    let advice = Advice::new(Location::Global, "frevo:worker threads", current, recommended);
    advised.recommend(advice.because(because).effect(effect));
}

fn flushes(facts: &Facts<'_>, advised: &mut Report) {
    let (flush, sync) = (&facts.measured.storage.flush, &facts.share.sync);
    if flush.median < SLOW_FLUSH {
        return;
    }
    let took = format!("a flush of 4 KiB takes {} (median; longest {})", seconds(flush.median), seconds(flush.worst));
    if facts.share.handles.continuously_available {
        advised.note(format!("{took}, and each write to a continuously available share waits for one"));
    }
    if sync.sync_always {
        let effect = "a write no longer waits for the disk; data that a client flushes is still on disk, and data that \
                      it does not flush can be lost in a power failure";
        let advice = Advice::new(Location::Share, "sync always", "yes", "no");
        advised.recommend(advice.because(took).effect(effect));
    } else if sync.strict_sync {
        advised.note(format!(
            "{took}, so a client that flushes each file waits. Keep `strict sync = yes`, because without it flushed \
             data can be lost. Flash storage, or a journal on it, makes flushes faster"
        ));
    }
}

fn attributes(facts: &Facts<'_>, advised: &mut Report) {
    let (storage, share) = (&facts.measured.storage, facts.share);
    let found = &storage.attributes;
    let kind = storage.kind();
    if found.set.is_none() {
        if share.attributes.store_dos_attributes {
            let because = format!("setting an extended attribute `user.` failed on {kind}");
            let effect = "no failing attempt at each creation; attributes follow the permission bits (`map archive`, \
                          `map hidden`, `map system`), as they do now";
            let advice = Advice::new(Location::Share, "store dos attributes", "yes", "no");
            advised.recommend(advice.because(because).effect(effect));
        }
        advised.note(format!(
            "{kind} has no extended attributes here: DOS attributes and alternate streams are not stored; use a file \
             system with `user.` attributes"
        ));
    }
    if let Some(stored) = &share.acls.stored {
        let unavailable = match stored.attribute.split('.').next() {
            Some("security" | "trusted") => !found.security,
            _ => found.set.is_none(),
        };
        if unavailable {
            advised.note(format!(
                "this process cannot set an attribute such as {}: if the server cannot either, Windows ACLs are not \
                 stored. Run `frevo tune` as root to be sure",
                stored.attribute
            ));
        } else if found.set.is_some() && found.largest < LONGEST_ATTRIBUTE {
            advised.note(format!(
                "an attribute can have at most about {} bytes: longer security descriptors are refused, and longer \
                 streams are kept in .frevo-streams. ext4 has more space with the feature ea_inode",
                found.largest
            ));
        }
    } else if !found.posix_acls && share.acls.nt_acl_support {
        advised.note(format!(
            "{kind} has no POSIX ACLs here: clients can change permissions of owner, group and others only"
        ));
    }
}

fn features(facts: &Facts<'_>, advised: &mut Report) {
    let (storage, share, policy) = (&facts.measured.storage, facts.share, facts.policy);
    let kind = storage.kind();
    if share.sync.strict_allocate && !storage.features.preallocates {
        let because = format!("reserving space (fallocate) failed on {kind}");
        let advice = Advice::new(Location::Share, "strict allocate", "yes", "no").because(because);
        advised.recommend(advice.effect("clients that reserve space are not refused"));
    }
    if policy.change_notify && policy.kernel_change_notify {
        if storage.is_remote() {
            advised
                .note(format!("{kind} does not report changes by other machines, so clients are not notified of them"));
        } else if !storage.features.notifies {
            advised.note("inotify did not report a new file: clients are not notified of changes by local programs");
        }
    }
    let reading = storage.list_per_name * MANY_NAMES;
    if !share.names.case_sensitive && reading > NOTICED {
        advised.note(format!(
            "the first look-up of a missing name in a directory of 100,000 entries takes {}, because names are \
             compared without regard to case. Later ones are answered from memory",
            seconds(reading)
        ));
    }
}
