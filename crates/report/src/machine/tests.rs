//! Tests on this machine and on invented ones.

use super::*;

#[test]
fn this_machine_is_described() {
    let Machine { name, processor, cores, memory, kernel, system: _ } = describe();
    assert!(
        !name.is_empty() && !processor.is_empty() && cores > 0 && memory > 0,
        "{name} {processor} {cores} {memory}"
    );
    assert_eq!(kernel, fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().trim_end());
}

#[test]
fn the_processor_and_the_distribution_are_read() {
    let check = |list, expected: Option<&str>| assert_eq!(processor(list).as_deref(), expected, "{list}");
    check("processor\t: 0\nmodel\t\t: 85\nmodel name\t: Some CPU: fast @ 2 GHz\n", Some("Some CPU: fast @ 2 GHz"));
    check("processor\t: 0\nBogoMIPS\t: 50\n", None);
    check("cpu\t\t: POWER9, altivec supported\n", Some("POWER9, altivec supported"));
    for text in ["PRETTY_NAME=\"A B 12\"\nNAME=x\n", "NAME=x\nPRETTY_NAME='A B 12'\n"] {
        assert_eq!(distribution(text).unwrap(), "A B 12");
    }
    assert_eq!(distribution("NAME=x\n"), None);
}

#[test]
fn the_mount_of_a_path_is_the_innermost() {
    let mounts = "21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard,errors=remount-ro\n\
                  22 21 0:5 / /srv rw,nosuid - tmpfs none rw,size=4k\n\
                  23 22 8:1 /sub /srv/my\\040share ro,noatime master:2 propagate_from:1 - xfs /dev/sd\\134x rw,quota\n\
                  24 21 0:7 / /srv rw - zfs pool/srv rw,xattr\n\
                  broken\n";
    let check = |path: &str, device, expected| {
        assert_eq!(file_system(mounts, Path::new(path), device).as_deref(), Some(expected), "{path}");
    };
    check("/home/a", "254:0", "ext4 on /dev/vda, rw,relatime,discard,errors=remount-ro");
    check("/srvx", "254:0", "ext4 on /dev/vda, rw,relatime,discard,errors=remount-ro");
    check("/srv/my share/a", "8:1", "xfs on /dev/sd\\x, ro,noatime,rw,quota");
    check("/srv", "0:7", "zfs on pool/srv, rw,xattr");
    check("/srv/other", "0:99", "zfs on pool/srv, rw,xattr");
    assert_eq!(file_system("", Path::new("/"), "254:0"), None);
    assert!(file_system_of(Path::new("/proc/self")).unwrap().starts_with("proc on "));
    assert_eq!(file_system_of(Path::new("/proc/no such thing")), None);
}

#[test]
fn times_are_converted_to_calendar_dates() {
    for (secs, text) in [
        (0, "1970-01-01T00:00:00Z"),
        (951_782_399, "2000-02-28T23:59:59Z"),
        (951_782_400, "2000-02-29T00:00:00Z"),
        (951_868_800, "2000-03-01T00:00:00Z"),
        (1_709_210_096, "2024-02-29T12:34:56Z"),
        (1_735_689_599, "2024-12-31T23:59:59Z"),
        (4_107_542_400, "2100-03-01T00:00:00Z"),
    ] {
        assert_eq!(rfc3339(secs), text);
    }
    assert_eq!(rfc3339_now().len(), 20);
}
