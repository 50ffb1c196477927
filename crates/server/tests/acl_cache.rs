//! Checks that the ACL cache holds as many bytes as it reports, by counting the allocator's bytes. The memory for
//! everything else is determined by the same accesses on a server without a cache.
//!
//! The allocator is asked for the size of each allocation, and glibc's header of 8 bytes is added.
#![cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

use proto::dtyp::acl::{Ace, AceFlags};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask, Acl, SecurityDescriptor, Sid};
use proto::smb2::SecurityInformation;
use server::acl::model::posix_acl;
use server::acl::model::posix_acl::{Entry, PosixAcl, Tag};
use server::acl::ntacl;
use server::answer::block_on;
use server::environment::Environment;
use server::policy::{Share, StoredAcls};
use server::testing::{self, TestClient, TestServer};
use server::vfs::memory::{Memory, Options};
use server::vfs::{Access, Create, NewFile, RelPath, SetXattr, Time, Vfs};

/// Currently allocated bytes.
static LIVE: AtomicIsize = AtomicIsize::new(0);

struct Counting;

unsafe extern "C" {
    fn malloc_usable_size(memory: *const c_void) -> usize;
}

fn count(memory: *mut u8, sign: isize) {
    if !memory.is_null() {
        // SAFETY: the memory was allocated by glibc.
        let bytes = unsafe { malloc_usable_size(memory.cast()) } + 8;
        LIVE.fetch_add(sign * bytes as isize, Ordering::Relaxed);
    }
}

// SAFETY: all calls are passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: guaranteed by the caller.
        let memory = unsafe { System.alloc(layout) };
        count(memory, 1);
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(memory, -1);
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(memory, layout) };
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(memory, -1);
        // SAFETY: guaranteed by the caller.
        let moved = unsafe { System.realloc(memory, layout, size) };
        count(if moved.is_null() { memory } else { moved }, 1);
        moved
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The files' ACLs: number of entries, number of files with equal ACLs, and whether they are in stored security
/// descriptors.
#[derive(Clone, Copy)]
struct Lists {
    entries: u32,
    equal: u32,
    stored: bool,
}

fn list(lists: Lists, file: u32) -> PosixAcl {
    let own = [(Tag::Owner, 6), (Tag::OwningGroup, 4), (Tag::Other, 4), (Tag::Mask, 7)];
    let first = 2_000 + file / lists.equal;
    let named = (0..lists.entries - 4).map(|index| (Tag::User(first + index), 6));
    PosixAcl::new(own.into_iter().chain(named).map(|(tag, permissions)| Entry { tag, permissions }).collect())
}

/// Returns a stored security descriptor with such an ACL, which is valid with any POSIX ACL.
fn descriptor(lists: Lists, file: u32) -> Vec<u8> {
    let first = 2_000 + file / lists.equal;
    let rights = AccessMask::FILE_GENERIC_READ;
    let named = (0..lists.entries).map(|index| Ace::allow(Sid::unix_user(first + index), rights, AceFlags::NONE));
    let all = Ace::allow(Sid::EVERYONE, rights, AceFlags::NONE);
    let dacl = Acl::new(Acl::REVISION, named.chain([all]).collect());
    let (owner, group) = (Some(Sid::unix_user(0)), Some(Sid::unix_group(0)));
    let control = Control::SELF_RELATIVE | Control::DACL_PRESENT;
    ntacl::encode_unconditional(&SecurityDescriptor { control, owner, group, dacl, ..SecurityDescriptor::default() })
}

fn access(client: &mut TestClient, name: &str) {
    let file_id = client.open(name, AccessMask::READ_CONTROL);
    client.security(file_id, SecurityInformation(7));
    client.close(file_id);
}

/// Returns the memory allocated by accesses to `files` files, on a server with a cache of `limit` bytes, and the size
/// that the cache reports.
fn accessed(limit: usize, files: u32, lists: Lists) -> (isize, usize) {
    let environment: Arc<dyn Environment> = Arc::new(testing::ManualClock::ticking());
    let options = Options { mode: 0o777, lists: true, ..Options::default() };
    let volume: Arc<dyn Vfs> = Arc::new(Memory::with_options(environment.clone(), options));
    for file in 0..files {
        let path = RelPath::root().join(file.to_string().as_bytes()).expect("a valid name");
        let made =
            block_on(volume.create(&testing::root(), &path, NewFile::new(Create::File(Access::default()), 0o644)));
        let node = made.expect("root has permission").node;
        let (name, value) = match lists.stored {
            true => (ntacl::ATTRIBUTE, descriptor(lists, file)),
            false => (posix_acl::ACCESS, list(lists, file).encode()),
        };
        block_on(node.set_xattr(&testing::root(), name, Some(value), SetXattr::Any)).expect("root has permission");
    }
    let mut policy = testing::policy();
    if lists.stored {
        let acls = Some(StoredAcls { ignore_system_acls: true, ..testing::stored_acls() });
        let mut share = Share::clone(&policy.shares["share"]);
        share.acls.stored = acls;
        policy.shares.insert("share".into(), Arc::new(share));
    }
    policy.limits.descriptor_bytes = limit;
    let server = TestServer::builder().policy(policy).volume(volume).start();
    let mut client = TestClient::logged_on(&server, "alice");
    let before = LIVE.load(Ordering::Relaxed);
    (0..files).for_each(|file| access(&mut client, &file.to_string()));
    let after = LIVE.load(Ordering::Relaxed);
    (after - before, server::status::snapshot(&server, Time::default()).acl_cache.bytes)
}

/// The cache's limit.
const LIMIT: usize = 1 << 20;

/// A single test, because others would allocate memory at the same time.
#[test]
fn the_cache_uses_the_memory_that_it_reports() {
    for (what, files, entries, equal) in [
        ("short ACLs", 4_000, 6, 1),
        ("the ACLs of the social network", 2_000, 42, 1),
        ("long ACLs", 400, 300, 1),
        ("ACLs shared by many files", 6_000, 12, 100),
        ("ACLs shared by two files", 5_000, 8, 2),
        ("a tenth of the capacity", 100, 42, 1),
    ] {
        for stored in [false, true] {
            let what = if stored { format!("{what}, stored") } else { what.to_owned() };
            check(&what, files, Lists { entries, equal, stored });
        }
    }
}

fn check(what: &str, files: u32, lists: Lists) {
    let (without, _) = accessed(0, files, lists);
    let (with, said) = accessed(LIMIT, files, lists);
    let held = usize::try_from(with - without).expect("the cache uses memory");
    assert!(said > LIMIT / 20, "{what}: {said} bytes are too few to measure");
    println!("{what}: {held} bytes held, {said} reported, {without} without a cache");
    assert!(held.abs_diff(said) <= said / 20 + 16_384, "{what}: {held} bytes are held, {said} reported");
    assert!(said <= LIMIT + LIMIT / 20, "{what}: {said}");
}
