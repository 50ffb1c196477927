//! What a share in a volume does not have: programs of this host that open its files and, if others may change the
//! files, caches of clients.

use server::policy::{Coherence, Share, Storage};

use crate::problem::{Code, note, without_effect};
use crate::reader::Reader;
use crate::table::gluster::COHERENCE;
use crate::table::locks::{
    CONTINUOUSLY_AVAILABLE, DURABLE_HANDLES, FAKE_OPLOCKS, KERNEL_OPLOCKS, LEVEL2_OPLOCKS, OPLOCKS, POSIX_LOCKING,
};

/// Takes from the share what it cannot have because of its storage.
pub(super) fn restrict(reader: &Reader<'_>, share: &mut Share) {
    let Storage::Gluster(volume) = &share.storage else { return };
    let is_exclusive = volume.coherence == Some(Coherence::Exclusive);
    (share.caching.kernel_oplocks, share.locks.posix_locking) = (false, false);
    for value in [&KERNEL_OPLOCKS, &POSIX_LOCKING].map(|parameter| reader.value(parameter)) {
        if value.is_set_in_share() && value.boolean() {
            let why = "programs of this host do not open the files of a GlusterFS volume";
            value.report(without_effect(Code::Accepted, format!("`{}`", value.name()), why));
        }
    }
    if is_exclusive {
        return;
    }
    let caching = &mut share.caching;
    (caching.oplocks, caching.level2_oplocks, caching.fake_oplocks) = (false, false, false);
    (share.handles.durable_handles, share.handles.continuously_available) = (false, false);
    let cannot_be = [&OPLOCKS, &LEVEL2_OPLOCKS, &FAKE_OPLOCKS, &DURABLE_HANDLES, &CONTINUOUSLY_AVAILABLE];
    for value in cannot_be.map(|parameter| reader.value(parameter)) {
        if value.is_set() && value.boolean() {
            let message = format!(
                "`{} = yes` has no effect in [{}], because others may change its files; `{} = exclusive` says that \
                 nobody does",
                value.name(),
                share.name,
                COHERENCE.name
            );
            let remedy = "no action needed, unless only this server changes the files of the volume";
            value.report(note(Code::Accepted, message).remedy(remedy));
        }
    }
}
