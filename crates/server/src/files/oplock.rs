//! Oplocks of one file: what its holders may cache, and what ends that ([MS-FSA] 2.1.4.12, 2.1.5.18, 2.1.5.19). Pure:
//! time is handed in, whom to tell is a trait.
//!
//! Leaves out leases, whose keys would let several opens share one oplock.

use std::sync::Arc;
use std::time::Duration;

use proto::dtyp::AccessMask;
use proto::smb2::OplockLevel;
use proto::status::Status;
use tokio::sync::oneshot;

/// How long a holder has to acknowledge a break ([MS-SMB2] 3.3.2.1, note <217>).
pub const ACKNOWLEDGMENT_TIME: Duration = Duration::from_secs(35);

/// Who holds an oplock, to be told of its break.
pub trait Holder: Send + Sync {
    /// The oplock is broken to `level`. Called while the file is locked in the table: it must not call back.
    fn broken(&self, level: OplockLevel);
}

/// What an open means for the oplocks of others.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// The content is thrown away, so nobody's copy of it stays valid.
    pub overwrites: bool,
    /// Only attributes are looked at or changed, which no oplock is about.
    pub attributes_only: bool,
    /// `World::uptime`.
    pub now: Duration,
}

impl Opening {
    /// An open with these rights ([MS-FSA] 2.1.4.12, case OPEN).
    pub fn new(desired_access: AccessMask, overwrites: bool, now: Duration) -> Self {
        const ATTRIBUTES: u32 =
            AccessMask::FILE_READ_ATTRIBUTES.0 | AccessMask::FILE_WRITE_ATTRIBUTES.0 | AccessMask::SYNCHRONIZE.0;
        Opening { overwrites, attributes_only: desired_access.0 & !ATTRIBUTES == 0 && !overwrites, now }
    }
}

/// A break that must be acknowledged before the file can be opened.
#[derive(Debug)]
pub struct Wait {
    /// Ends, with whatever result, when the break is acknowledged or its holder is gone.
    pub changed: oneshot::Receiver<()>,
    /// `World::uptime` at which the holder has lost the oplock even without a word.
    pub deadline: Duration,
}

/// The oplocks of a file.
#[derive(Default)]
pub(super) struct Oplocks {
    held: Vec<Held>,
    /// Opens that lost level II and were told so, which they might take for a question.
    told: Vec<u64>,
    waiting: Vec<oneshot::Sender<()>>,
}

struct Held {
    open: u64,
    level: OplockLevel,
    breaking: Option<Breaking>,
    holder: Arc<dyn Holder>,
}

#[derive(Clone, Copy)]
struct Breaking {
    to: OplockLevel,
    deadline: Duration,
}

impl Oplocks {
    /// Whether the sole holder may keep the file open behind the client's back: such an oplock is broken before share
    /// modes are looked at.
    pub(super) fn is_batch(&self) -> bool {
        self.held.iter().any(|held| held.level == OplockLevel::BATCH)
    }

    /// [MS-FSA] 2.1.4.12, case OPEN: breaks what an open breaks. `Some` where that must be waited for.
    pub(super) fn open(&mut self, opening: Opening) -> Option<Wait> {
        if opening.attributes_only {
            return None;
        }
        let to = if opening.overwrites { OplockLevel::NONE } else { OplockLevel::II };
        if opening.overwrites {
            self.write();
        }
        let held = self.held.iter_mut().find(|held| held.level != OplockLevel::II)?;
        let deadline = match held.breaking {
            Some(breaking) => breaking.deadline,
            None => {
                let deadline = opening.now + ACKNOWLEDGMENT_TIME;
                held.breaking = Some(Breaking { to, deadline });
                held.holder.broken(to);
                deadline
            }
        };
        let (sender, changed) = oneshot::channel();
        self.waiting.push(sender);
        Some(Wait { changed, deadline })
    }

    /// Level II ends when content changes, the writer's own included; nobody need acknowledge (2.1.4.12, case WRITE).
    pub(super) fn write(&mut self) {
        self.held.retain(|held| {
            let stays = held.level != OplockLevel::II;
            if !stays {
                held.holder.broken(OplockLevel::NONE);
                self.told.push(held.open);
            }
            stays
        });
    }

    /// 2.1.5.18 with [MS-SMB2] 3.3.5.9 "Oplock Acquisition": what is granted of `asked`. `alone`: no other open exists.
    pub(super) fn grant(
        &mut self,
        open: u64,
        asked: OplockLevel,
        alone: bool,
        level_two: bool,
        holder: Arc<dyn Holder>,
    ) -> OplockLevel {
        let exclusive = matches!(asked, OplockLevel::EXCLUSIVE | OplockLevel::BATCH);
        let level = if exclusive && alone && self.held.is_empty() {
            asked
        } else if (exclusive || asked == OplockLevel::II)
            && level_two
            && self.held.iter().all(|held| held.level == OplockLevel::II)
        {
            OplockLevel::II
        } else {
            return OplockLevel::NONE;
        };
        self.held.push(Held { open, level, breaking: None, holder });
        level
    }

    /// [MS-SMB2] 3.3.5.22.1 with [MS-FSA] 2.1.5.19: the holder gives way and keeps `level`. Answers what it holds now.
    pub(super) fn acknowledge(&mut self, open: u64, level: OplockLevel) -> Result<OplockLevel, Status> {
        // 2.1.5.19: the end of level II needs no acknowledgment.
        if let Some(index) = self.told.iter().position(|told| *told == open) {
            self.told.swap_remove(index);
            return Err(Status::INVALID_OPLOCK_PROTOCOL);
        }
        let held = self.held.iter_mut().find(|held| held.open == open).ok_or(Status::INVALID_DEVICE_STATE)?;
        let breaking = held.breaking.take().ok_or(Status::INVALID_DEVICE_STATE)?;
        let batch = held.level == OplockLevel::BATCH;
        let (kept, result) = match level {
            OplockLevel::II => (breaking.to, Ok(breaking.to)),
            OplockLevel::NONE => (OplockLevel::NONE, Ok(OplockLevel::NONE)),
            OplockLevel::EXCLUSIVE if batch => (OplockLevel::NONE, Ok(OplockLevel::NONE)),
            OplockLevel::LEASE => (OplockLevel::NONE, Err(Status::INVALID_PARAMETER)),
            _ => (OplockLevel::NONE, Err(Status::INVALID_OPLOCK_PROTOCOL)),
        };
        held.level = kept;
        self.held.retain(|held| held.level != OplockLevel::NONE);
        self.wake();
        result
    }

    /// The open is closed; with it goes its oplock (2.1.4.12, case CLOSE).
    pub(super) fn close(&mut self, open: u64) {
        self.told.retain(|told| *told != open);
        let before = self.held.len();
        self.held.retain(|held| held.open != open);
        if self.held.len() != before {
            self.wake();
        }
    }

    /// [MS-SMB2] 3.3.6.1: who has not acknowledged in time holds nothing any more.
    pub(super) fn expire(&mut self, now: Duration) {
        let before = self.held.len();
        self.held.retain(|held| held.breaking.is_none_or(|breaking| breaking.deadline > now));
        if self.held.len() != before {
            self.wake();
        }
    }

    fn wake(&mut self) {
        for waiting in self.waiting.drain(..) {
            // Whoever was cancelled meanwhile does not listen any more.
            let _ = waiting.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    const NOW: Duration = Duration::from_secs(100);
    const NONE: OplockLevel = OplockLevel::NONE;
    const II: OplockLevel = OplockLevel::II;
    const EXCLUSIVE: OplockLevel = OplockLevel::EXCLUSIVE;
    const BATCH: OplockLevel = OplockLevel::BATCH;

    #[derive(Default)]
    struct Told(Mutex<Vec<OplockLevel>>);

    impl Holder for Told {
        fn broken(&self, level: OplockLevel) {
            self.0.lock().push(level);
        }
    }

    impl Told {
        #[track_caller]
        fn check(&self, expected: &[OplockLevel]) {
            assert_eq!(std::mem::take(&mut *self.0.lock()), expected);
        }
    }

    fn opening(overwrites: bool) -> Opening {
        Opening::new(AccessMask::FILE_READ_DATA, overwrites, NOW)
    }

    fn held(level: OplockLevel) -> (Oplocks, Arc<Told>) {
        let (mut oplocks, told) = (Oplocks::default(), Arc::new(Told::default()));
        assert_eq!(oplocks.grant(1, level, true, true, told.clone()), level);
        (oplocks, told)
    }

    #[test]
    fn what_is_granted() {
        let grant = |first: OplockLevel, asked, alone, level_two| {
            let mut oplocks = Oplocks::default();
            if first != NONE {
                assert_eq!(oplocks.grant(1, first, true, true, Arc::new(Told::default())), first);
            }
            oplocks.grant(2, asked, alone, level_two, Arc::new(Told::default()))
        };
        assert_eq!(grant(NONE, BATCH, true, true), BATCH);
        assert_eq!(grant(NONE, BATCH, true, false), BATCH);
        assert_eq!(grant(NONE, EXCLUSIVE, true, true), EXCLUSIVE);
        assert_eq!(grant(NONE, BATCH, false, true), II);
        assert_eq!(grant(NONE, BATCH, false, false), NONE);
        assert_eq!(grant(II, EXCLUSIVE, false, true), II);
        assert_eq!(grant(II, II, false, true), II);
        assert_eq!(grant(BATCH, II, false, true), NONE);
        assert_eq!(grant(NONE, NONE, true, true), NONE);
        assert_eq!(grant(NONE, OplockLevel::LEASE, true, true), NONE);
        assert_eq!(grant(NONE, OplockLevel(0x77), true, true), NONE);
    }

    #[test]
    fn an_open_breaks_an_exclusive_oplock_once_and_waits() {
        for (overwrites, to) in [(false, II), (true, NONE)] {
            let (mut oplocks, told) = held(EXCLUSIVE);
            let mut first = oplocks.open(opening(overwrites)).expect("waits");
            told.check(&[to]);
            assert_eq!(first.deadline, NOW + ACKNOWLEDGMENT_TIME);
            let mut second = oplocks.open(Opening { now: NOW * 2, ..opening(overwrites) }).expect("waits");
            told.check(&[]);
            assert_eq!(second.deadline, first.deadline, "a second open gives the holder no more time");
            assert!(first.changed.try_recv().is_err());
            assert_eq!(oplocks.acknowledge(1, II), Ok(to));
            assert!(first.changed.try_recv().is_ok() && second.changed.try_recv().is_ok());
            assert!(oplocks.open(opening(false)).is_none());
        }
    }

    #[test]
    fn attributes_break_nothing() {
        let (mut oplocks, told) = held(BATCH);
        let rights = AccessMask(0x0010_0180);
        assert!(oplocks.open(Opening::new(rights, false, NOW)).is_none());
        assert!(oplocks.open(Opening::new(rights, true, NOW)).is_some(), "overwriting does");
        told.check(&[NONE]);
    }

    #[test]
    fn writing_ends_level_two_without_a_wait() {
        let (mut oplocks, told) = held(II);
        let other = Arc::new(Told::default());
        assert_eq!(oplocks.grant(2, II, false, true, other.clone()), II);
        assert!(oplocks.open(opening(false)).is_none());
        told.check(&[]);
        oplocks.write();
        told.check(&[NONE]);
        other.check(&[NONE]);
        oplocks.write();
        told.check(&[]);
        assert_eq!(oplocks.acknowledge(1, NONE), Err(Status::INVALID_OPLOCK_PROTOCOL), "nobody asked");
        assert_eq!(oplocks.acknowledge(1, NONE), Err(Status::INVALID_DEVICE_STATE));
    }

    #[test]
    fn acknowledgments() {
        let check = |level, acknowledged, expected| {
            let (mut oplocks, _told) = held(level);
            assert_eq!(oplocks.acknowledge(1, acknowledged), Err(Status::INVALID_DEVICE_STATE), "not breaking");
            let _wait = oplocks.open(opening(false));
            assert_eq!(oplocks.acknowledge(2, acknowledged), Err(Status::INVALID_DEVICE_STATE), "another's");
            assert_eq!(oplocks.acknowledge(1, acknowledged), expected);
            assert!(oplocks.open(opening(false)).is_none(), "however it was acknowledged, it is broken");
        };
        check(BATCH, II, Ok(II));
        check(BATCH, NONE, Ok(NONE));
        check(BATCH, EXCLUSIVE, Ok(NONE));
        check(BATCH, BATCH, Err(Status::INVALID_OPLOCK_PROTOCOL));
        check(EXCLUSIVE, EXCLUSIVE, Err(Status::INVALID_OPLOCK_PROTOCOL));
        check(EXCLUSIVE, OplockLevel::LEASE, Err(Status::INVALID_PARAMETER));
        check(EXCLUSIVE, OplockLevel(0x77), Err(Status::INVALID_OPLOCK_PROTOCOL));
    }

    #[test]
    fn closing_or_silence_ends_the_wait() {
        let (mut oplocks, _told) = held(BATCH);
        let mut wait = oplocks.open(opening(false)).expect("waits");
        oplocks.close(2);
        oplocks.expire(wait.deadline - Duration::from_nanos(1));
        assert!(wait.changed.try_recv().is_err());
        oplocks.close(1);
        assert!(wait.changed.try_recv().is_ok());

        let (mut oplocks, _told) = held(BATCH);
        let mut wait = oplocks.open(opening(false)).expect("waits");
        oplocks.expire(wait.deadline);
        assert!(wait.changed.try_recv().is_ok() && oplocks.open(opening(false)).is_none());
        assert_eq!(oplocks.acknowledge(1, II), Err(Status::INVALID_DEVICE_STATE), "too late");
    }
}
