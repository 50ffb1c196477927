//! Former groups that follow from an account's former SIDs: every user of a machine or domain is a member of its Domain
//! Users, and Samba stores the SID of that group as the group of each file.

use std::sync::Arc;

use proto::dtyp::Sid;
use server::accounts::principals::ALL_USERS_RID;

/// The first RID of regular accounts ([MS-DTYP] 2.4.2.4); lower RIDs are well-known, including the guest.
const FIRST_OF_PEOPLE: u32 = 1000;

/// Returns the `former` SIDs, followed by the Domain Users SID of each machine or domain that they belong to.
pub(super) fn with_all_users(former: Arc<[Sid]>) -> Arc<[Sid]> {
    let people = former.iter().filter(|sid| sid.rid().is_some_and(|rid| rid >= FIRST_OF_PEOPLE));
    let mut all: Vec<Sid> = Vec::new();
    for domain in people.filter_map(Sid::domain) {
        let users = domain.with_rid(ALL_USERS_RID);
        if let Some(users) = users.filter(|users| !all.contains(users) && !former.contains(users)) {
            all.push(users);
        }
    }
    if all.is_empty() { former } else { former.iter().copied().chain(all).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_user_sids_add_domain_users_of_their_domain() {
        let of = |machine, rid| Sid::of(5, [21, machine, 2, 3, rid]);
        let cases: [(&[Sid], &[Sid]); 4] = [
            (&[], &[]),
            (&[of(1, 1000), of(1, 1001)], &[of(1, 513)]),
            (&[of(1, 1000), of(7, 3000)], &[of(1, 513), of(7, 513)]),
            (&[of(1, 501), of(7, 1000), of(7, 513)], &[]),
        ];
        for (former, more) in cases {
            assert_eq!(*with_all_users(former.into()), [former, more].concat());
        }
    }
}
