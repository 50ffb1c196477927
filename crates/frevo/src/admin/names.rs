//! Whose SIDs are whose, asked of a running server: it alone has the accounts open.

use anyhow::{Result, anyhow, ensure};
use proto::dtyp::Sid;
use serde::{Deserialize, Serialize};
use server::accounts::{Accounts, Unavailable};
use server::principals::{Principal, Realm, SidNameUse, UnixId};

/// SIDs and ids in one request.
pub const NAMES_BATCH: usize = 1000;

/// What is asked: answered with [`Names`].
#[derive(Serialize, Deserialize)]
#[serde(tag = "request")]
pub enum NamesRequest {
    /// Who these are.
    #[serde(rename = "names")]
    Of(Whom),
}

/// SIDs and ids, [`NAMES_BATCH`] at most.
#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct Whom {
    /// SIDs as text.
    #[serde(default)]
    pub sids: Vec<String>,
    /// Users of Linux.
    #[serde(default)]
    pub uids: Vec<u32>,
    /// Groups of Linux.
    #[serde(default)]
    pub gids: Vec<u32>,
}

/// What is known of them, each list in the order of the request.
#[derive(Serialize, Deserialize, Debug)]
pub struct Names {
    /// The SID of the server as a domain.
    pub domain: String,
    /// Of the SIDs.
    pub sids: Vec<Known>,
    /// The SIDs of the users.
    pub uids: Vec<String>,
    /// The SIDs of the groups.
    pub gids: Vec<String>,
}

/// What is known of a SID.
#[derive(Clone, Serialize, Deserialize, Debug, Default)]
pub struct Known {
    /// The user of Linux.
    pub uid: Option<u32>,
    /// The group of Linux.
    pub gid: Option<u32>,
    /// Its name.
    pub name: Option<Named>,
}

/// The name of a SID.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Named {
    /// `SID_NAME_USE` ([MS-SAMR] 2.2.2.3).
    pub kind: u16,
    /// Where the name belongs; `null` for the server itself.
    pub realm: Option<String>,
    /// The name.
    pub name: String,
}

impl Known {
    /// The user or group of Linux.
    pub fn id(&self) -> Option<UnixId> {
        match (self.uid, self.gid) {
            (Some(uid), Some(gid)) if uid == gid => Some(UnixId::Both(uid)),
            (Some(uid), _) => Some(UnixId::User(uid)),
            (None, gid) => gid.map(UnixId::Group),
        }
    }

    /// Whose SID it is.
    pub fn principal(self, sid: Sid) -> Option<Principal> {
        let Named { kind, realm, name } = self.name?;
        let realm = match realm {
            None => Realm::Server,
            Some(realm) if realm.is_empty() => Realm::Nowhere,
            Some(realm) => Realm::Named(realm),
        };
        Some(Principal { sid, kind: SidNameUse(kind), realm, name })
    }
}

/// Answers a request.
pub async fn answer(request: NamesRequest, accounts: &dyn Accounts) -> Result<Names> {
    let NamesRequest::Of(Whom { sids, uids, gids }) = request;
    ensure!(sids.len() + uids.len() + gids.len() <= NAMES_BATCH, "at most {NAMES_BATCH} SIDs and ids in a request");
    let mut names = Names { domain: accounts.domain().to_string(), sids: vec![], uids: vec![], gids: vec![] };
    for text in sids {
        let sid = text.parse().map_err(|_| anyhow!("{text:?} is no SID"))?;
        let id = accounts.id_of(&sid).await.map_err(unavailable)?;
        let named = accounts.principal(&sid).await.map_err(unavailable)?.map(|principal| Named {
            kind: principal.kind.0,
            realm: match principal.realm {
                Realm::Server => None,
                Realm::Named(realm) => Some(realm),
                Realm::Nowhere => Some(String::new()),
            },
            name: principal.name,
        });
        names.sids.push(Known { uid: id.and_then(UnixId::uid), gid: id.and_then(UnixId::gid), name: named });
    }
    for uid in uids {
        names.uids.push(accounts.sid_of(UnixId::User(uid)).await.map_err(unavailable)?.to_string());
    }
    for gid in gids {
        names.gids.push(accounts.sid_of(UnixId::Group(gid)).await.map_err(unavailable)?.to_string());
    }
    Ok(names)
}

fn unavailable(why: Unavailable) -> anyhow::Error {
    anyhow!("{}", why.0)
}
