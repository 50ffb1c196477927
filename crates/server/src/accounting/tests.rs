use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::vfs::Identity;

const MIB: usize = 1 << 20;

fn address(host: u8) -> AddressBucket {
    IpAddr::from([192, 0, 2, host]).into()
}

fn user(name: &str) -> User {
    User {
        name: name.into(),
        domain: "DOM".into(),
        guest: false,
        anonymous: false,
        workstation: String::new(),
        sids: Arc::new([]),
        identity: Arc::new(Identity { uid: 1000, gid: 1000, groups: Box::new([]) }),
        groups: Arc::new([]),
    }
}

/// Charges one MiB at a time until a charge is refused.
fn fill(payer: &Arc<Payer>) -> Vec<Charge> {
    std::iter::from_fn(|| payer.charge(Resource::PipeData, MIB).ok()).collect()
}

#[test]
fn one_user_gets_a_quarter_and_others_still_get_a_part() {
    let accounting = Accounting::new(&Bounds::of_memory(1024 * MIB));
    let alice = fill(&accounting.user(&user("alice"), address(1)));
    assert_eq!(alice.len(), 256, "a quarter of 1,024");
    let bob = fill(&accounting.user(&user("bob"), address(2)));
    assert!((180..=192).contains(&bob.len()), "{}", bob.len());
    let many: Vec<_> =
        (0..200).flat_map(|number| fill(&accounting.user(&user(&format!("u{number}")), address(number)))).collect();
    assert!(accounting.memory() < 1024 * MIB);
    drop((alice, bob, many));
    assert_eq!(accounting.memory(), 0);
}

#[test]
fn many_users_of_one_address_get_half() {
    let accounting = Accounting::new(&Bounds::of_memory(1024 * MIB));
    let all: Vec<_> =
        (0..50).flat_map(|number| fill(&accounting.user(&user(&format!("u{number}")), address(1)))).collect();
    assert!((500..=512).contains(&all.len()), "{}", all.len());
    assert!(fill(&accounting.user(&user("other"), address(2))).len() > 100);
}

#[test]
fn clients_without_a_user_have_a_sixteenth_together() {
    let accounting = Accounting::new(&Bounds::of_memory(1024 * MIB));
    let one = fill(&accounting.unauthenticated(address(1)));
    assert_eq!(one.len(), 32, "half of 64");
    let nobody = User { anonymous: true, ..user("") };
    let anonymous = fill(&accounting.user(&nobody, address(1)));
    assert_eq!(anonymous.len(), 0, "all anonymous users are one user");
    let others: Vec<_> = (2..250).flat_map(|host| fill(&accounting.unauthenticated(address(host)))).collect();
    assert!(one.len() + others.len() <= 64);
    assert_eq!(fill(&accounting.user(&user("alice"), address(1))).len(), 240, "a quarter of the rest");
}

#[test]
fn resources_are_bounded_by_number_and_use_memory() {
    let bounds = Bounds::of_memory(MIB).with(Resource::Opens, 100);
    let accounting = Accounting::new(&bounds);
    let alice = accounting.user(&user("Alice"), address(1));
    let opens: Vec<_> = std::iter::from_fn(|| alice.charge(Resource::Opens, 1).ok()).collect();
    assert_eq!(opens.len(), 50, "half of the limit");
    assert_eq!(accounting.memory(), 50 * Resource::Opens.bytes(1));
    let refused = alice.charge(Resource::Opens, 1).unwrap_err();
    assert_eq!((refused.memory, refused.to_string().as_str()), (false, "no opens left for DOM\\Alice"));
    assert!(accounting.user(&user("ALICE"), address(2)).charge(Resource::Opens, 1).is_err(), "the same user");
    assert!(accounting.user(&user("bob"), address(1)).charge(Resource::Opens, 1).is_ok());
}

#[test]
fn received_data_is_charged_even_over_the_limit() {
    let accounting = Accounting::new(&Bounds::of_memory(100 * MIB));
    let (alice, bob) = (accounting.user(&user("alice"), address(1)), accounting.user(&user("bob"), address(2)));
    let mut charge = Charge::recorded(&alice, Resource::Input, 30 * MIB);
    assert!(alice.is_overdrawn() && !bob.is_overdrawn());
    assert!(charge.grow(31 * MIB).is_err());
    charge.transfer(&bob);
    assert!(!alice.is_overdrawn() && bob.is_overdrawn());
    charge.record(MIB);
    assert!(!bob.is_overdrawn());
    charge.record(101 * MIB);
    assert!(alice.is_overdrawn() && alice.is_server_overdrawn());
}

#[test]
fn accounts_are_removed_with_their_last_payer() {
    let accounting = Accounting::new(&Bounds::of_memory(MIB));
    for number in 0..10_000 {
        accounting.user(&user(&format!("u{number}")), IpAddr::from([10, 0, (number >> 8) as u8, number as u8]).into());
    }
    assert!(accounting.users.lock().by_key.len() <= PURGE_AT + 1);
    assert!(accounting.addresses.lock().by_key.len() <= PURGE_AT + 1);
}

#[test]
fn a_report_names_the_largest() {
    let accounting = Accounting::new(&Bounds::of_memory(1024 * MIB));
    let _all: Vec<_> = (1..=30)
        .map(|number| {
            let payer = accounting.user(&user(&format!("u{number}")), address(number));
            payer.charge(Resource::Listings, usize::from(number) * 1000).unwrap()
        })
        .collect();
    let report = accounting.report();
    assert_eq!((report.users.len(), report.users[0].0.as_str()), (20, "DOM\\u30"));
    assert_eq!((report.addresses[0].0.as_str(), report.addresses[0].1.held), ("192.0.2.30", 30_000));
    assert_eq!(report.memory.held, 30 * 31 / 2 * 1000);
}

proptest! {
    #[test]
    fn the_server_never_holds_more_than_it_may(charges in prop::collection::vec((0..6_u8, 1..200_usize), 1..200)) {
        let accounting = Accounting::new(&Bounds::of_memory(1000));
        let mut held = Vec::new();
        for (number, amount) in charges {
            let payer = accounting.user(&user(&number.to_string()), address(number % 3));
            held.extend(payer.charge(Resource::Changes, amount));
            prop_assert!(accounting.memory() <= 1000);
            if amount % 7 == 0 {
                held.pop();
            }
        }
        held.clear();
        prop_assert_eq!(accounting.memory(), 0);
    }
}
