//! The record of a persistent open: the data needed to reopen its file and to recognize its client.
//!
//! Little-endian, preceded by a layout number. Not stored: positions in directory listings (directories are never
//! persistent), deferred times, watches, and other state that a client sets up again.

use std::time::Duration;

use proto::bytes::{Malformed, Reader, Result, Writer};
use proto::dtyp::{AccessMask, Guid, Sid};
use proto::smb2::create::{CreateAction, CreateOptions, ShareAccess};
use proto::smb2::create_context::AppInstanceVersion;
use proto::smb2::{LeaseState, OplockLevel};

use super::lock_sequence::ENTRIES;
use super::{Instance, Persistent, Reason, Terms};
use crate::files::byte_lock::{Lock, Owner as LockOwner, Range};
use crate::files::oplock::{self, LeaseAsked};
use crate::files::{LeaseId, OpenLease};
use crate::state::Server;
use crate::state::open::{FileOpen, Open};
use crate::user::Owner;
use crate::vfs::{RelPath, Time};

/// The layout that is written, and the only one that is read.
const LAYOUT: u8 = 2;

/// The record of a persistent open.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Record {
    pub(crate) terms: Terms,
    /// The share's name.
    pub(crate) share: String,
    pub(crate) path: RelPath,
    /// The file's inode number and birth time, which prevent opening another file of the same name.
    pub(crate) inode: u64,
    pub(crate) born: Option<Time>,
    pub(crate) granted: AccessMask,
    pub(crate) share_access: ShareAccess,
    /// The options in force.
    pub(crate) options: CreateOptions,
    pub(crate) delete_on_close: bool,
    /// The file is deleted with its last open, at the request of any client.
    pub(crate) delete_pending: bool,
    pub(crate) asked_allocation: u64,
    pub(crate) created: Time,
    pub(crate) caching: Caching,
    pub(crate) instance: Option<Instance>,
    pub(crate) lock_sequences: [u8; ENTRIES],
    /// Range, exclusive.
    pub(crate) locks: Vec<(Range, bool)>,
}

/// The client's oplock or lease.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Caching {
    Oplock(OplockLevel),
    Lease { lease: OpenLease, state: LeaseState, epoch: Option<u16> },
}

impl Record {
    /// Creates the record of an open; `None` if it is not persistent.
    pub(crate) fn of(server: &Server, open: &Open, file: &FileOpen) -> Option<Record> {
        let terms = file.durability.terms().filter(|terms| terms.reason == Reason::Persistent)?;
        let locks = server.opens.files.locks_of(file.file, open.persistent_id);
        let caching = match file.lease {
            Some(lease) => {
                let granted = server.opens.files.lease(file.file, lease.id);
                let state = granted.map_or(LeaseState::NONE, |granted| granted.state);
                Caching::Lease { lease, state, epoch: granted.and_then(|granted| granted.epoch) }
            }
            None => Caching::Oplock(oplock::level(server.opens.files.caches(file.file, open.persistent_id))),
        };
        Some(Record {
            share: open.tree.share_name().to_string(),
            path: file.name.path.lock().clone(),
            inode: file.file.inode,
            born: terms.persistent.and_then(|persistent| persistent.born),
            granted: open.granted,
            share_access: open.share,
            options: file.options(),
            delete_on_close: file.delete_on_close.load(std::sync::atomic::Ordering::Acquire),
            delete_pending: server.opens.files.is_delete_pending(file.file),
            asked_allocation: file.asked_allocation(),
            created: open.created,
            caching,
            instance: file.durability.instance().copied(),
            lock_sequences: file.durability.lock_sequences.all(),
            locks: locks.iter().map(|lock| (lock.range, lock.exclusive)).collect(),
            terms,
        })
    }

    /// Returns the byte-range locks as those of the open `open`.
    pub(crate) fn locks_of(&self, open: u64) -> Vec<Lock> {
        let owner = LockOwner { open, key: 0 };
        self.locks.iter().map(|&(range, exclusive)| Lock { owner, range, exclusive }).collect()
    }

    /// Returns the lease that the open was made under.
    pub(crate) fn lease(&self) -> Option<OpenLease> {
        match self.caching {
            Caching::Oplock(_) => None,
            Caching::Lease { lease, .. } => Some(lease),
        }
    }

    /// Encodes the record.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let out = &mut Writer::new(&mut bytes);
        out.u8(LAYOUT);
        encode_terms(&self.terms, out);
        text(out, self.share.as_bytes());
        text(out, self.path.as_bytes());
        out.u64(self.inode);
        optional(out, self.born, encode_time);
        out.u32(self.granted.0);
        out.u32(self.share_access.0);
        out.u32(self.options.0);
        out.u8(u8::from(self.delete_on_close));
        out.u8(u8::from(self.delete_pending));
        out.u64(self.asked_allocation);
        encode_time(out, self.created);
        encode_caching(&self.caching, out);
        optional(out, self.instance, encode_instance);
        out.bytes(&self.lock_sequences);
        out.u32(u32::try_from(self.locks.len()).unwrap_or(u32::MAX));
        for (range, exclusive) in &self.locks {
            out.u64(range.offset());
            out.u64(range.length());
            out.u8(u8::from(*exclusive));
        }
        bytes
    }

    /// Decodes what [`Record::encode`] returned.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Record> {
        let reader = &mut Reader::new(bytes);
        if reader.u8()? != LAYOUT {
            return Err(Malformed::Value);
        }
        let record = Record {
            terms: decode_terms(reader)?,
            share: string(reader)?,
            path: path(take_text(reader)?)?,
            inode: reader.u64()?,
            born: if reader.u8()? != 0 { Some(decode_time(reader)?) } else { None },
            granted: AccessMask(reader.u32()?),
            share_access: ShareAccess(reader.u32()?),
            options: CreateOptions(reader.u32()?),
            delete_on_close: reader.u8()? != 0,
            delete_pending: reader.u8()? != 0,
            asked_allocation: reader.u64()?,
            created: decode_time(reader)?,
            caching: decode_caching(reader)?,
            instance: if reader.u8()? != 0 { Some(decode_instance(reader)?) } else { None },
            lock_sequences: reader.array()?,
            locks: decode_locks(reader)?,
        };
        if reader.remaining() > 0 { Err(Malformed::Structure) } else { Ok(record) }
    }
}

fn text(out: &mut Writer<'_>, bytes: &[u8]) {
    out.u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    out.bytes(bytes);
}

fn take_text<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8]> {
    let length = usize::try_from(reader.u32()?).map_err(|_| Malformed::Offset)?;
    reader.take(length)
}

fn string(reader: &mut Reader<'_>) -> Result<String> {
    String::from_utf8(take_text(reader)?.to_vec()).map_err(|_| Malformed::Value)
}

fn path(bytes: &[u8]) -> Result<RelPath> {
    let mut path = RelPath::root();
    let components = bytes.split(|&byte| byte == b'/').filter(|_| !bytes.is_empty());
    for component in components {
        if !path.push(component) {
            return Err(Malformed::Value);
        }
    }
    Ok(path)
}

fn optional<T>(out: &mut Writer<'_>, value: Option<T>, encode: impl FnOnce(&mut Writer<'_>, T)) {
    out.u8(u8::from(value.is_some()));
    if let Some(value) = value {
        encode(out, value);
    }
}

fn encode_time(out: &mut Writer<'_>, time: Time) {
    out.u64(time.secs as u64);
    out.u32(time.nanos);
}

fn decode_time(reader: &mut Reader<'_>) -> Result<Time> {
    Ok(Time { secs: reader.u64()? as i64, nanos: reader.u32()? })
}

fn encode_terms(terms: &Terms, out: &mut Writer<'_>) {
    out.u64(u64::try_from(terms.timeout.as_millis()).unwrap_or(u64::MAX));
    optional(out, terms.owner.sid, |out, sid| sid.encode(out));
    text(out, terms.owner.name.as_bytes());
    text(out, terms.owner.domain.as_bytes());
    out.u32(terms.owner.uid);
    out.bytes(&terms.create_guid.unwrap_or_default().0);
    let asked = terms.persistent.unwrap_or_default();
    out.u32(asked.desired_access);
    out.u32(asked.create_options);
    out.u32(asked.share_access);
    out.u32(asked.action.0);
}

fn decode_terms(reader: &mut Reader<'_>) -> Result<Terms> {
    Ok(Terms {
        reason: Reason::Persistent,
        timeout: Duration::from_millis(reader.u64()?),
        owner: Owner {
            sid: if reader.u8()? != 0 { Some(Sid::decode(reader)?) } else { None },
            name: string(reader)?,
            domain: string(reader)?,
            uid: reader.u32()?,
        },
        create_guid: Some(Guid(reader.array()?)),
        persistent: Some(Persistent {
            desired_access: reader.u32()?,
            create_options: reader.u32()?,
            share_access: reader.u32()?,
            action: CreateAction(reader.u32()?),
            born: None,
            restored: true,
        }),
    })
}

fn encode_caching(caching: &Caching, out: &mut Writer<'_>) {
    match caching {
        Caching::Oplock(level) => {
            out.u8(0);
            out.u8(level.0);
        }
        Caching::Lease { lease, state, epoch } => {
            out.u8(1);
            out.bytes(&lease.id.client.0);
            out.bytes(&lease.id.key);
            optional(out, lease.parent, |out, key| out.bytes(&key));
            out.u32(state.0);
            optional(out, *epoch, |out, epoch| out.u16(epoch));
        }
    }
}

fn decode_caching(reader: &mut Reader<'_>) -> Result<Caching> {
    match reader.u8()? {
        0 => Ok(Caching::Oplock(OplockLevel(reader.u8()?))),
        1 => {
            let id = LeaseId { client: Guid(reader.array()?), key: reader.array()? };
            let parent = if reader.u8()? != 0 { Some(reader.array()?) } else { None };
            let state = LeaseState(reader.u32()?);
            let epoch = if reader.u8()? != 0 { Some(reader.u16()?) } else { None };
            Ok(Caching::Lease { lease: OpenLease { id, parent }, state, epoch })
        }
        _ => Err(Malformed::Value),
    }
}

fn encode_instance(out: &mut Writer<'_>, instance: Instance) {
    out.bytes(&instance.id);
    out.bytes(&instance.client.0);
    optional(out, instance.version, |out, version| {
        out.u64(version.app_instance_version_high);
        out.u64(version.app_instance_version_low);
    });
}

fn decode_instance(reader: &mut Reader<'_>) -> Result<Instance> {
    let (id, client) = (reader.array()?, Guid(reader.array()?));
    let version = match reader.u8()? {
        0 => None,
        _ => Some(AppInstanceVersion {
            app_instance_version_high: reader.u64()?,
            app_instance_version_low: reader.u64()?,
        }),
    };
    Ok(Instance { id, version, client })
}

fn decode_locks(reader: &mut Reader<'_>) -> Result<Vec<(Range, bool)>> {
    let count = reader.u32()?;
    let mut locks = Vec::new();
    for _ in 0..count {
        let range = Range::new(reader.u64()?, reader.u64()?).ok_or(Malformed::Value)?;
        locks.push((range, reader.u8()? != 0));
    }
    Ok(locks)
}

/// Returns the lease request that restores a lease. Granting it increments the epoch.
pub(crate) fn asked_again(lease: &OpenLease, state: LeaseState, epoch: Option<u16>) -> LeaseAsked {
    LeaseAsked { id: lease.id, state, epoch: epoch.map(|epoch| epoch.wrapping_sub(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let lease = OpenLease { id: LeaseId { client: Guid([1; 16]), key: [2; 16] }, parent: Some([3; 16]) };
        Record {
            terms: Terms {
                reason: Reason::Persistent,
                timeout: Duration::from_secs(60),
                owner: Owner {
                    sid: Some(Sid::of(5, [21, 1, 2, 3, 1103])),
                    name: "ann".into(),
                    domain: "D".into(),
                    uid: 1000,
                },
                create_guid: Some(Guid([4; 16])),
                persistent: Some(Persistent {
                    desired_access: 1,
                    create_options: 2,
                    share_access: 3,
                    action: CreateAction::CREATED,
                    born: None,
                    restored: true,
                }),
            },
            share: "data".into(),
            path: path(b"dir/file").expect("a valid path"),
            inode: 7,
            born: Some(Time { secs: -1, nanos: 5 }),
            granted: AccessMask(0x0012_019f),
            share_access: ShareAccess(7),
            options: CreateOptions::WRITE_THROUGH,
            delete_on_close: true,
            delete_pending: false,
            asked_allocation: 4096,
            created: Time { secs: 9, nanos: 0 },
            caching: Caching::Lease { lease, state: LeaseState(7), epoch: Some(3) },
            instance: Some(Instance { id: [5; 16], version: None, client: Guid([6; 16]) }),
            lock_sequences: [8; ENTRIES],
            locks: vec![
                (Range::new(0, 10).expect("a range"), true),
                (Range::new(u64::MAX, 1).expect("a range"), false),
            ],
        }
    }

    #[test]
    fn records_round_trip() {
        let version = AppInstanceVersion { app_instance_version_high: 1, app_instance_version_low: 2 };
        let with_version = Instance { version: Some(version), ..record().instance.expect("one") };
        for record in [
            record(),
            Record { instance: Some(with_version), born: None, locks: Vec::new(), ..record() },
            Record { instance: None, path: RelPath::root(), caching: Caching::Oplock(OplockLevel::BATCH), ..record() },
        ] {
            assert_eq!(Record::decode(&record.encode()), Ok(record));
        }
    }

    #[test]
    fn malformed_records_are_refused() {
        let bytes = record().encode();
        for length in 0..bytes.len() {
            assert!(Record::decode(&bytes[..length]).is_err(), "{length}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(Record::decode(&longer), Err(Malformed::Structure));
        let other = [&[LAYOUT + 1], &bytes[1..]].concat();
        assert_eq!(Record::decode(&other), Err(Malformed::Value));
        assert!(path(b"../x").is_err() && path(b"a//b").is_err());
    }
}
