//! Lookup of SIDs, ids and names by a running server, which alone has the accounts open.

use anyhow::{Result, anyhow, ensure};
use proto::dtyp::Sid;
use serde::{Deserialize, Serialize};
use server::accounts::principals::{Principal, Realm, SidNameUse, UnixId};
use server::accounts::{IdMap, Unavailable};

/// Maximum number of SIDs and ids in one request.
pub const NAMES_BATCH: usize = 1000;

/// A lookup request; answered with [`Names`].
#[derive(Serialize, Deserialize)]
#[serde(tag = "request")]
pub enum NamesRequest {
    /// Resolves these SIDs and ids.
    #[serde(rename = "names")]
    Of(NamesQuery),
}

/// SIDs and ids, at most [`NAMES_BATCH`].
#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct NamesQuery {
    /// SIDs as text.
    #[serde(default)]
    pub sids: Vec<String>,
    /// Linux uids.
    #[serde(default)]
    pub uids: Vec<u32>,
    /// Linux gids.
    #[serde(default)]
    pub gids: Vec<u32>,
}

/// The results, each list in request order.
#[derive(Serialize, Deserialize, Debug)]
pub struct Names {
    /// The server's domain SID.
    pub domain: String,
    /// Results for the SIDs.
    pub sids: Vec<Known>,
    /// The SIDs of the uids.
    pub uids: Vec<String>,
    /// The SIDs of the gids.
    pub gids: Vec<String>,
}

/// The result for a SID.
#[derive(Clone, Serialize, Deserialize, Debug, Default)]
pub struct Known {
    /// The Linux uid.
    pub uid: Option<u32>,
    /// The Linux gid.
    pub gid: Option<u32>,
    /// The name of the SID.
    pub name: Option<Named>,
}

/// The name of a SID.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Named {
    /// `SID_NAME_USE` ([MS-SAMR] 2.2.2.3).
    pub kind: u16,
    /// The domain of the name; `null` for the server itself.
    pub realm: Option<String>,
    /// The name.
    pub name: String,
}

impl Known {
    /// Returns the Linux user or group.
    pub fn id(&self) -> Option<UnixId> {
        match (self.uid, self.gid) {
            (Some(uid), Some(gid)) if uid == gid => Some(UnixId::Both(uid)),
            (Some(uid), _) => Some(UnixId::User(uid)),
            (None, gid) => gid.map(UnixId::Group),
        }
    }

    /// Returns the principal with this SID.
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
pub async fn answer(request: NamesRequest, ids: &dyn IdMap) -> Result<Names> {
    let NamesRequest::Of(NamesQuery { sids, uids, gids }) = request;
    ensure!(sids.len() + uids.len() + gids.len() <= NAMES_BATCH, "at most {NAMES_BATCH} SIDs and ids per request");
    let mut names = Names { domain: ids.domain().to_string(), sids: vec![], uids: vec![], gids: vec![] };
    for text in sids {
        let sid = text.parse().map_err(|_| anyhow!("{text:?} is not a SID"))?;
        let id = ids.id_of(&sid).await.map_err(unavailable)?;
        let named = ids.principal(&sid).await.map_err(unavailable)?.map(|principal| Named {
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
        names.uids.push(ids.sid_of(UnixId::User(uid)).await.map_err(unavailable)?.to_string());
    }
    for gid in gids {
        names.gids.push(ids.sid_of(UnixId::Group(gid)).await.map_err(unavailable)?.to_string());
    }
    Ok(names)
}

fn unavailable(why: Unavailable) -> anyhow::Error {
    anyhow!("{}", why.0)
}
