//! `[homes]`: for each user with a home directory, a share built from this section, with the user's name as `%S` and
//! the home directory as the default of `path`. The section is read again for each connect, so every parameter may
//! contain `%S`.

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
use super::table::share::SHARED_PATH;
use super::variables::ServerVariables;

/// The longest user name that is looked up.
const LONGEST_NAME: usize = 255;

/// The `[homes]` section.
pub(super) struct Homes(Arc<Inner>);

struct Inner {
    global: Settings,
    section: resolve::Share,
    policy: Policy,
    names: Arc<dyn Names + Send + Sync>,
    shown: Share,
}

impl Homes {
    /// Builds the section of a configuration whose other parts are in `policy`; `None` if the host cannot be queried
    /// later.
    pub(super) fn new(reader: &Reader<'_>, section: &resolve::Share, policy: &Policy) -> Option<Self> {
        if let Some(path) = section.settings.0.get(SHARED_PATH.name)
            && !path.text.starts_with(['/', '%'])
        {
            reader.value(&SHARED_PATH).bad_value(&path.text, "an absolute path, with %S for the user");
        }
        // Any directory is suitable for reading the other parameters.
        let section_at_root = with_path(section, "/".into(), true);
        let reader = Reader { share: Some(&section_at_root), ..*reader };
        let shown = share::build(&reader, &section_at_root)?;
        let names = reader.variables.names.owned()?;
        let (global, section) = (reader.global.clone(), with_path(section, String::new(), false));
        Some(Homes(Arc::new(Inner { global, section, policy: policy.clone(), names, shown })))
    }
}

/// Returns `section` with `path` set, if it has no path or `over` is set.
fn with_path(section: &resolve::Share, path: String, over: bool) -> resolve::Share {
    let mut settings = section.settings.clone();
    if over || !settings.0.contains_key(SHARED_PATH.name) && !path.is_empty() {
        settings.0.insert(SHARED_PATH.name, Value { text: path, place: None });
    }
    resolve::Share { name: section.name.clone(), place: section.place.clone(), settings }
}

impl Inner {
    /// Returns the share of the user `name`. This blocks.
    fn share_of(&self, name: &str, uid: Option<u32>) -> Result<Option<Arc<Share>>, Unavailable> {
        let home = self.names.home(name, uid).map_err(Unavailable)?;
        let Some(home) = home.filter(|home| policy::is_home(home)).and_then(|home| home.to_str().map(str::to_owned))
        else {
            return Ok(None);
        };
        // A user's domain is not part of the share's name.
        let name = name.rsplit('\\').next().unwrap_or_default().to_owned();
        let mut section = with_path(&self.section, home.replace('%', "%%"), false);
        section.name.clone_from(&name);
        let variables = ServerVariables {
            names: &*self.names,
            netbios_name: self.policy.netbios_name.clone(),
            workgroup: self.policy.workgroup.clone(),
            share: Some(name),
        };
        let problems = RefCell::new(Problems::default());
        let reader = Reader { global: &self.global, share: Some(&section), variables: &variables, problems: &problems };
        let share = share::build(&reader, &section);
        let problems = problems.into_inner();
        if problems.faulty_shares().next().is_some() {
            tracing::error!(share = section.name, "[homes]: {problems}");
            return Ok(None);
        }
        Ok(share.map(Arc::new))
    }
}

impl policy::Homes for Homes {
    fn share_of(&self, name: &str, uid: Option<u32>) -> Answer<Result<Option<Arc<Share>>, Unavailable>> {
        if name.is_empty() || name.len() > LONGEST_NAME || name.contains(['/', '\0', '%']) {
            return Answer::now(Ok(None));
        }
        let (inner, name) = (self.0.clone(), name.to_owned());
        Answer::later(async move {
            let asked = tokio::task::spawn_blocking(move || inner.share_of(&name, uid)).await;
            asked.unwrap_or_else(|error| Err(Unavailable(format!("look-up of a home directory: {error}"))))
        })
    }

    fn section(&self) -> &Share {
        &self.0.shown
    }
}
