//! Determines which SIDs only this server may assign: those of its present and former domains, and every SID that one
//! of its accounts or groups has or had, in any domain. SIDs of a user that a domain controller or realm supplies must
//! not include them.

use std::collections::HashSet;

use proto::dtyp::Sid;

use super::may_come_from_domain;
use crate::accounts::{IdMap, Unavailable};

/// Returns those of `sids` that are the server's own. `ids` must contain only local accounts, not those of a
/// domain.
pub async fn of_server(ids: &dyn IdMap, sids: &[Sid]) -> Result<HashSet<Sid>, Unavailable> {
    let (mut own, others): (HashSet<Sid>, Vec<Sid>) = (
        sids.iter().filter(|sid| ids.is_of_machine(sid)).copied().collect(),
        sids.iter().filter(|sid| may_come_from_domain(sid) && !ids.is_of_machine(sid)).copied().collect(),
    );
    ids.expect_sids(&others).await;
    for sid in others {
        own.extend(ids.principal(&sid).await?.map(|_| sid));
    }
    Ok(own)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::accounts::DomainSid;
    use crate::accounts::principals::{Principal, Realm, SidNameUse, UnixId};
    use crate::answer::{Answer, block_on};
    use crate::testing::NoAccounts;
    use crate::vfs::Identity;

    const FORMER: Sid = Sid::of(5, [21, 9, 9, 9, 1000]);
    const AWAY: Sid = Sid::of(5, [21, 9, 9, 9, 1001]);

    /// [`FORMER`] is a former SID of an account; for [`AWAY`] the back end is unavailable.
    struct Known;

    const WITHOUT_ACCOUNTS: NoAccounts = NoAccounts(DomainSid([7, 7, 7]));

    impl IdMap for Known {
        fn principal(&self, sid: &Sid) -> Answer<Result<Option<Principal>, Unavailable>> {
            let ann = Principal { sid: *sid, kind: SidNameUse::USER, realm: Realm::Server, name: "ann".into() };
            Answer::now(match *sid {
                AWAY => Err(Unavailable("the directory is unavailable".into())),
                FORMER => Ok(Some(ann)),
                _ => Ok(None),
            })
        }

        fn id_of(&self, sid: &Sid) -> Answer<Result<Option<UnixId>, Unavailable>> {
            WITHOUT_ACCOUNTS.id_of(sid)
        }

        fn sid_of(&self, id: UnixId) -> Answer<Result<Sid, Unavailable>> {
            WITHOUT_ACCOUNTS.sid_of(id)
        }

        fn sids_of(&self, identity: &Arc<Identity>) -> Answer<Result<Vec<Sid>, Unavailable>> {
            WITHOUT_ACCOUNTS.sids_of(identity)
        }

        fn named(&self, realm: Option<&str>, name: &str) -> Answer<Result<Option<Principal>, Unavailable>> {
            WITHOUT_ACCOUNTS.named(realm, name)
        }

        fn expect_sids(&self, sids: &[Sid]) -> Answer<()> {
            WITHOUT_ACCOUNTS.expect_sids(sids)
        }

        fn domain(&self) -> DomainSid {
            WITHOUT_ACCOUNTS.domain()
        }

        fn is_of_machine(&self, sid: &Sid) -> bool {
            WITHOUT_ACCOUNTS.is_of_machine(sid)
        }
    }

    #[test]
    fn former_sids_of_accounts_belong_to_the_server() {
        let own = Sid::of(5, [21, 7, 7, 7, 4000]);
        let others = [Sid::of(5, [21, 9, 9, 9, 1002]), Sid::of(18, [1])];
        let all = [own, FORMER, others[0], others[1]];
        assert_eq!(block_on(of_server(&Known, &all)).unwrap(), HashSet::from([own, FORMER]));
        assert!(block_on(of_server(&Known, &[own, AWAY])).is_err());
    }
}
