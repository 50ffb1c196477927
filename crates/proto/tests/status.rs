//! Compares the NTSTATUS table with the values and names of [MS-ERREF] 2.3.1, in both directions.

use std::collections::BTreeSet;

use proto::status::Status;

#[test]
fn the_table_is_that_of_the_specification() {
    let listed: BTreeSet<(u32, &str)> = include_str!("data/ntstatus.tsv")
        .lines()
        .map(|line| {
            let (value, name) = line.split_once('\t').expect("two columns");
            (u32::from_str_radix(value.trim_start_matches("0x"), 16).expect("a hexadecimal value"), name)
        })
        .collect();
    let known: BTreeSet<(u32, &str)> = Status::TABLE.iter().map(|(status, name)| (status.0, *name)).collect();
    assert_eq!(listed.len(), 1799);
    assert_eq!(listed.difference(&known).collect::<Vec<_>>(), [] as [&(u32, &str); 0], "missing");
    assert_eq!(known.difference(&listed).collect::<Vec<_>>(), [] as [&(u32, &str); 0], "not in the specification");
    assert_eq!(Status::TABLE.len(), listed.len(), "a row occurs twice");
}

#[test]
fn every_name_finds_its_value_and_every_value_a_name() {
    assert!(Status::TABLE.is_sorted_by_key(|(status, _)| *status));
    for (status, name) in Status::TABLE {
        assert_eq!(Status::from_name(name), Some(*status));
        let first = status.name().expect("a listed value has a name");
        assert_eq!(Status::from_name(first), Some(*status), "{name} and {first} share a value");
    }
    assert_eq!(Status(0).name(), Some("STATUS_SUCCESS"));
    assert_eq!(Status(u32::MAX).name(), None);
}
