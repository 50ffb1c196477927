//! The state of the listing of an open directory ([MS-FSA] 2.1.5.6.3).

use std::collections::{HashMap, VecDeque};

use super::Open;
use crate::accounting::{Charge, Resource};
use crate::name::wildcard::Pattern;
use crate::streams::doubles::Doubles;
use crate::streams::listed::Listed;
use crate::vfs::Entry;

/// The state of a handle's listing.
#[derive(Default)]
pub struct Listing {
    /// The search pattern of the first request, until another request restarts the listing with its own ([MS-FSA]
    /// 2.1.5.6.3).
    pub(crate) pattern: Option<Pattern>,
    /// The name on disk that the pattern means; `None` if it has wildcards.
    pub(crate) name: Option<Box<[u8]>>,
    /// The entry in `ahead` was found by looking up `name`.
    pub(crate) looked_up: bool,
    /// The position in the directory after `ahead`.
    pub(crate) cursor: u64,
    /// Entries that were read but not sent yet.
    pub(crate) ahead: VecDeque<Entry>,
    /// `.` and `..`, or the single name, were read already.
    pub(crate) begun: bool,
    /// The directory has no further entries.
    pub(crate) ended: bool,
    /// A query was answered since the handle was opened or reopened: FirstQuery of [MS-FSA] 2.1.5.6.3 is false, and the
    /// end is reported as NO_MORE_FILES instead of NO_SUCH_FILE.
    pub(crate) answered: bool,
    /// The entries of `ahead` were read after `listed`.
    pub(crate) is_undescribed: bool,
    /// What Macs see of the entries of `ahead`, by their names.
    pub(crate) listed: HashMap<Box<[u8]>, Listed>,
    /// The AppleDouble files in the directory.
    pub(crate) doubles: Doubles,
    /// The charge for `ahead`, `listed` and `doubles`.
    pub(crate) charge: Option<Charge>,
}

impl Listing {
    /// Charges the entries read ahead, and what is known of them, to the user.
    pub(crate) fn account(&mut self, open: &Open) {
        if self.ahead.is_empty() {
            self.ahead = VecDeque::new();
            self.listed = HashMap::new();
        }
        if self.ahead.is_empty() && self.ended {
            self.doubles = Doubles::default();
        }
        let doubles = self.doubles.bytes();
        if self.ahead.is_empty() && doubles == 0 {
            self.charge = None;
            return;
        }
        let names: usize = self.ahead.iter().map(|entry| entry.name.len()).sum();
        let listed = self.listed.capacity() * size_of::<(Box<[u8]>, Listed)>();
        let bytes = names + self.ahead.capacity() * size_of::<Entry>() + listed + doubles;
        let payer = open.charge.payer();
        self.charge.get_or_insert_with(|| Charge::nothing(payer, Resource::Listings)).record(bytes);
    }
}
