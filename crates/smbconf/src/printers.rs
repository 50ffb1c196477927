//! `[printers]`: for each queue of the print system, a share built from this section, with the queue's name as `%S`.
//! The section is read again for each connect, so every parameter may contain `%S`.

use std::cell::RefCell;
use std::sync::Arc;

use server::accounts::Unavailable;
use server::answer::Answer;
use server::policy::{self, Policy, Share};

use super::Names;
use super::problem::Problems;
use super::reader::Reader;
use super::resolve::{self, Settings, Value};
use super::share;
use super::table::printing::PRINTABLE;
use super::variables::ServerVariables;

/// The `[printers]` section.
pub(super) struct Printers(Arc<Inner>);

struct Inner {
    global: Settings,
    section: resolve::Share,
    netbios_name: String,
    workgroup: String,
    names: Arc<dyn Names + Send + Sync>,
    shown: Share,
}

impl Printers {
    /// Builds the section of a configuration whose other parts are in `policy`; `None` if it has errors, or the host
    /// cannot be queried later.
    pub(super) fn new(reader: &Reader<'_>, section: &resolve::Share, policy: &Policy) -> Option<Self> {
        let section = printable(section);
        let reader = Reader { share: Some(&section), ..*reader };
        let shown = share::build(&reader, &section)?;
        shown.printing.as_ref()?;
        let names = reader.variables.names.owned()?;
        let global = reader.global.clone();
        let (netbios_name, workgroup) = (policy.netbios_name.clone(), policy.workgroup.clone());
        Some(Printers(Arc::new(Inner { global, section, netbios_name, workgroup, names, shown })))
    }
}

/// Returns `section` as a print share, which it always is, as in Samba.
pub(super) fn printable(section: &resolve::Share) -> resolve::Share {
    let mut settings = section.settings.clone();
    settings.0.insert(PRINTABLE.name, Value { text: "yes".to_owned(), place: None });
    resolve::Share { name: section.name.clone(), place: section.place.clone(), settings }
}

impl Inner {
    /// Returns the share of a queue. This blocks.
    fn share_of(&self, queue: &str) -> Option<Arc<Share>> {
        let mut section = printable(&self.section);
        queue.clone_into(&mut section.name);
        let variables = ServerVariables {
            names: &*self.names,
            netbios_name: self.netbios_name.clone(),
            workgroup: self.workgroup.clone(),
            share: Some(queue.to_owned()),
        };
        let problems = RefCell::new(Problems::default());
        let reader = Reader { global: &self.global, share: Some(&section), variables: &variables, problems: &problems };
        let share = share::build(&reader, &section);
        let problems = problems.into_inner();
        if problems.faulty_shares().next().is_some() {
            tracing::error!(share = section.name, "[printers]: {problems}");
            return None;
        }
        share.map(Arc::new)
    }
}

impl policy::Printers for Printers {
    fn share_of(&self, queue: &str) -> Answer<Result<Option<Arc<Share>>, Unavailable>> {
        let (inner, queue) = (self.0.clone(), queue.to_owned());
        Answer::later(async move {
            let asked = tokio::task::spawn_blocking(move || inner.share_of(&queue)).await;
            asked.map_err(|error| Unavailable(format!("look-up of a print share: {error}")))
        })
    }

    fn section(&self) -> &Share {
        &self.0.shown
    }
}
