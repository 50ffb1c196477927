//! Determines which SIDs only this server may assign: those of its present and former domains, and every SID that one
//! of its accounts or groups has or had, in any domain. SIDs of a user that a domain controller or realm supplies must
//! not include them.

use std::collections::HashSet;

use proto::dtyp::Sid;

use super::may_come_from_domain;
use crate::accounts::{Accounts, Unavailable};

/// Returns those of `sids` that are the server's own. `accounts` must contain only local accounts, not those of a
/// domain.
pub async fn of_server(accounts: &dyn Accounts, sids: &[Sid]) -> Result<HashSet<Sid>, Unavailable> {
    let (mut own, others): (HashSet<Sid>, Vec<Sid>) = (
        sids.iter().filter(|sid| accounts.is_of_machine(sid)).copied().collect(),
        sids.iter().filter(|sid| may_come_from_domain(sid) && !accounts.is_of_machine(sid)).copied().collect(),
    );
    accounts.expect_sids(&others).await;
    for sid in others {
        own.extend(accounts.principal(&sid).await?.map(|_| sid));
    }
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::principals::{Principal, Realm, SidNameUse};
    use crate::accounts::{Account, DomainSid};
    use crate::answer::{Answer, block_on};

    const FORMER: Sid = Sid::of(5, [21, 9, 9, 9, 1000]);
    const AWAY: Sid = Sid::of(5, [21, 9, 9, 9, 1001]);

    /// [`FORMER`] is a former SID of an account; for [`AWAY`] the back end is unavailable.
    struct Known;

    impl Accounts for Known {
        fn find(&self, _: &str) -> Answer<Result<Option<Account>, Unavailable>> {
            Answer::now(Ok(None))
        }

        fn domain(&self) -> DomainSid {
            DomainSid([7, 7, 7])
        }

        fn principal(&self, sid: &Sid) -> Answer<Result<Option<Principal>, Unavailable>> {
            let ann = Principal { sid: *sid, kind: SidNameUse::USER, realm: Realm::Server, name: "ann".into() };
            Answer::now(match *sid {
                AWAY => Err(Unavailable("the directory is unavailable".into())),
                FORMER => Ok(Some(ann)),
                _ => Ok(None),
            })
        }

        crate::plain_accounts!(all but find, domain, principal);
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
