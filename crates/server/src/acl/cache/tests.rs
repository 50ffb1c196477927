use proto::dtyp::Sid;
use proto::dtyp::acl::{Ace, AceFlags};

use super::*;
use crate::testing::{self, ManualClock};
use crate::vfs::{GRANULARITY, Kind};

const PLACE: VolumeView = VolumeView { volume: 1, view: 0 };

/// A protection by a POSIX ACL of `count` entries whose owner is `owner`.
fn protection(cache: &Cache, owner: u32, count: u32) -> Arc<Protection> {
    let ace = |uid| Ace::allow(Sid::unix_user(uid), AccessMask(1), AceFlags::NONE);
    let dacl = Acl::new(Acl::REVISION, (0..count).map(ace).collect());
    let owner_sid = Some(Sid::unix_user(owner));
    let shared = cache.share(SecurityDescriptor { owner: owner_sid, dacl, ..SecurityDescriptor::default() });
    Arc::new(Protection::by_descriptor(shared, &Metadata { uid: owner, ..file(1, 0) }, 0))
}

fn at(secs: i64) -> Validity {
    Validity { changed: Some(Time { secs, nanos: 0 }), state: None }
}

fn file(inode: u64, changed: i64) -> Metadata {
    let time = Time { secs: changed, nanos: 0 };
    let id = FileId { device: 1, inode, stream: 0 };
    Metadata { id, changed: time, stamped: time, ..testing::metadata(Kind::File, 0o644, (0, 0)) }
}

fn cache(limit: usize) -> Cache {
    Cache::new(Arc::new(ManualClock::ticking()), limit)
}

#[test]
fn an_entry_is_valid_for_one_change_time() {
    let cache = cache(1 << 20);
    cache.keep(PLACE, file(1, 5).id, at(5), protection(&cache, 7, 3));
    assert!(cache.find(PLACE, &file(1, 5)).is_some());
    for other in [file(1, 6), file(1, 4), file(2, 5)] {
        assert!(cache.find(PLACE, &other).is_none());
    }
    assert!(cache.find(VolumeView { view: 1, ..PLACE }, &file(1, 5)).is_none());
    cache.keep(PLACE, file(1, 6).id, at(6), protection(&cache, 8, 3));
    assert!(cache.find(PLACE, &file(1, 6)).is_some() && cache.find(PLACE, &file(1, 5)).is_none());
    assert_eq!(cache.state(), CacheStatistics { entries: 1, hits: 2, misses: 5, bytes: cache.bytes() });
}

#[test]
fn a_change_time_set_by_a_client_proves_nothing() {
    let cache = cache(1 << 20);
    cache.keep(PLACE, file(1, 5).id, at(5), protection(&cache, 7, 3));
    let set = Time { secs: 5, nanos: 0 };
    assert!(
        cache.find(PLACE, &Metadata { changed: set, ..file(1, 6) }).is_none(),
        "it changed without a new change time"
    );
    let now = cache.environment.now().secs;
    assert!(!cache.is_settled(&Metadata { changed: set, ..file(1, now + 100) }, GRANULARITY));
}

#[test]
fn a_recent_change_may_be_followed_by_an_undetectable_one() {
    let cache = cache(1 << 20);
    let now = cache.environment.now().secs;
    assert!(cache.is_settled(&file(1, now - 1), GRANULARITY));
    // The clock advances by a second at each reading.
    assert!(!cache.is_settled(&file(1, now + 100), GRANULARITY), "a clock that was set back");
}

#[test]
fn equal_descriptors_are_kept_once() {
    let cache = cache(1 << 20);
    for inode in 0..100 {
        cache.keep(PLACE, file(inode, 5).id, at(5), protection(&cache, 7, 40));
    }
    assert_eq!(cache.state().entries, 100);
    let of_descriptor = cache.pool.bytes.load(Ordering::Relaxed);
    assert!(of_descriptor < 40 * size_of::<Ace>() + 1_000, "{of_descriptor}");
    drop(cache.share(SecurityDescriptor::default()));
    let known: usize = cache.pool.known.iter().map(|known| known.lock().map().len()).sum();
    assert_eq!(known, 1, "unused entries are dropped");
}

#[test]
fn the_cache_respects_its_size_and_drops_unused_entries() {
    let limit = 2_000_000;
    let cache = cache(limit);
    for inode in 0..10_000 {
        cache.keep(PLACE, file(inode, 5).id, at(5), protection(&cache, inode as u32, inode as u32 % 50));
        assert!(cache.find(PLACE, &file(0, 5)).is_some(), "in use after {inode} was added");
        assert!(cache.bytes() <= limit + 10_000, "{}", cache.bytes());
    }
    let state = cache.state();
    assert!(state.entries > 250 && state.entries < 7_500, "{state:?}");
    let held: usize = cache.shards.iter().map(|shard| shard.lock().index.map().len()).sum();
    assert_eq!(held, state.entries);
    drop(cache.shards.iter().map(|shard| std::mem::take(&mut *shard.lock())).collect::<Vec<_>>());
    assert!(cache.pool.known.iter().all(|known| known.lock().map().is_empty()));
    let tables: usize = cache.pool.known.iter().map(|known| known.lock().bytes()).sum();
    assert_eq!(cache.pool.bytes.load(Ordering::Relaxed), tables);
}

#[test]
fn a_cached_acl_has_no_spare_capacity() {
    let cache = cache(1 << 20);
    let mut aces = Vec::with_capacity(100);
    aces.push(Ace::allow(Sid::unix_user(1), AccessMask(1), AceFlags::NONE));
    let dacl = Acl::new(Acl::REVISION, aces);
    let shared = cache.share(SecurityDescriptor { dacl: dacl.clone(), ..SecurityDescriptor::default() });
    assert_eq!(shared.dacl, dacl);
    let kept = shrunk(SecurityDescriptor { dacl, ..SecurityDescriptor::default() });
    assert_eq!(kept.dacl.map(|dacl| dacl.into_aces().capacity()), Some(1));
}

#[test]
fn without_capacity_nothing_is_cached() {
    let cache = cache(0);
    cache.keep(PLACE, file(1, 5).id, at(5), protection(&cache, 1, 3));
    assert!(cache.find(PLACE, &file(1, 5)).is_none());
    for _ in 0..2 {
        assert_eq!(cache.granted((By::Descriptor(1), 1, false), || AccessMask(7)), AccessMask(7));
    }
    assert!(cache.grants.iter().all(|grants| grants.lock().is_empty()));
    assert!(cache.state().entries == 0 && cache.bytes() < 4096, "{:?}", cache.state());
}

#[test]
fn grants_are_cached_by_descriptor_and_token() {
    let cache = cache(1 << 20);
    let all = AccessMask::FILE_ALL_ACCESS;
    assert_eq!(cache.granted((By::Descriptor(1), 1, false), || all), all);
    assert_eq!(cache.granted((By::Descriptor(1), 1, false), || unreachable!("the entry is cached")), all);
    let other = By::Descriptor;
    for other in [(other(2), 1, false), (other(1), 2, false), (other(1), 1, true), (By::AclInputs(1), 1, false)] {
        assert_eq!(cache.granted(other, || AccessMask::NONE), AccessMask::NONE);
    }
    for token in 0..200_000 {
        cache.granted((By::Descriptor(3), token, false), || all);
    }
    let kept: usize = cache.grants.iter().map(|grants| grants.lock().len()).sum();
    assert!(kept <= SHARDS * GRANTS, "{kept}");
}
