use super::*;
use smbconf::kerberos::Encryption;

#[test]
fn client_names_are_parsed() {
    let check = |name: &str, expected: Option<(&[&str], &str, bool)>| {
        let parsed = client_name(name, "A.TEST");
        let found = parsed.as_ref().map(|name| {
            (name.components.iter().map(String::as_str).collect::<Vec<_>>(), name.realm.as_str(), name.own_realm)
        });
        assert_eq!(found, expected.map(|(parts, realm, own)| (parts.to_vec(), realm, own)), "{name}");
    };
    check("ann@A.TEST", Some((&["ann"], "A.TEST", true)));
    check("ann@a.test", Some((&["ann"], "a.test", false)));
    check("ann@B.TEST", Some((&["ann"], "B.TEST", false)));
    check("ann/admin@A.TEST", Some((&["ann", "admin"], "A.TEST", true)));
    check("DESK$@A.TEST", Some((&["DESK$"], "A.TEST", true)));
    // An escaped at sign belongs to the name.
    check(r"ann\@A.TEST@B.TEST", Some((&["ann@A.TEST"], "B.TEST", false)));
    check(r"a\/b@A.TEST", Some((&["a/b"], "A.TEST", true)));
    check(r"a\0b\n@A.TEST", Some((&["a\0b\n"], "A.TEST", true)));
    for wrong in ["ann", "ann@", "ann@A@B", "ann@A.TEST\\", ""] {
        check(wrong, None);
    }
    check(&format!("{}@A.TEST", "a".repeat(2000)), None);
}

fn settings() -> Settings {
    Settings { keytab: "/etc/krb5.keytab".into(), realm: "A.TEST".into(), encryption: Encryption::Strong }
}

#[test]
fn the_own_realm_is_that_of_the_keytab_and_tickets_are_for_cifs() {
    let by_keytab = Settings { realm: String::new(), ..settings() };
    for (service, expected) in [
        ("cifs/srv.b.test@B.TEST", Some("B.TEST")),
        ("CIFS/srv@B.TEST", Some("B.TEST")),
        ("host/srv.b.test@B.TEST", Some("B.TEST")),
        ("SRV$@B.TEST", Some("B.TEST")),
        ("HTTP/srv.b.test@B.TEST", None),
        ("nfs/srv.b.test@B.TEST", None),
        ("krbtgt/B.TEST@B.TEST", None),
        ("ann@B.TEST", None),
        ("cifs/a/b@B.TEST", None),
        ("cifs/srv", None),
    ] {
        assert_eq!(own_realm(&by_keytab, service).ok().as_deref(), expected, "{service}");
        assert_eq!(own_realm(&settings(), service).ok().as_deref(), expected.map(|_| "A.TEST"), "{service}");
    }
}

#[test]
fn weak_encryption_is_refused_unless_permitted() {
    for (permitted, etype, good) in [
        (Encryption::Strong, 18, true),
        (Encryption::Strong, 19, true),
        (Encryption::Strong, 23, false),
        (Encryption::Strong, 16, false),
        (Encryption::All, 23, true),
        (Encryption::Legacy, 23, true),
        (Encryption::Legacy, 18, false),
    ] {
        let checked = check_type(&Settings { encryption: permitted, ..settings() }, EncryptionType(etype), "ticket");
        assert_eq!(checked.is_ok(), good, "{permitted:?} {etype}");
        if let Err(why) = checked {
            assert!(why.contains("kerberos encryption types"), "{why}");
        }
    }
}

#[test]
fn a_refusal_names_the_key_the_keytab_and_the_remedy() {
    let envelope = Envelope {
        realm: "A.TEST".into(),
        service: "cifs/srv.a.test".into(),
        encryption: EncryptionType::AES256_CTS_HMAC_SHA1_96,
        key_version: Some(3),
    };
    for (minor, cause, remedy) in [
        (Failure::CLOCK_SKEW, Cause::Clock, "NTP"),
        (Failure::TICKET_EXPIRED, Cause::Time, "kinit"),
        (Failure::TICKET_NOT_YET_VALID, Cause::Time, "kinit"),
        (Failure::REPLAY, Cause::Other, "before"),
        (0, Cause::Other, "klist -ket /etc/krb5.keytab"),
    ] {
        let failure = Failure { major: 13 << 16, minor, text: "said".into(), token: vec![7] };
        let refusal = explain(&settings(), &envelope, failure);
        assert_eq!((refusal.cause, &refusal.reply[..]), (cause, &[7][..]));
        for part in
            ["said", "cifs/srv.a.test@A.TEST", "version 3", "aes256-cts-hmac-sha1-96", "/etc/krb5.keytab", remedy]
        {
            assert!(refusal.why.contains(part), "{part}: {}", refusal.why);
        }
    }
}

#[test]
fn invalid_requests_are_refused_without_any_lookup() {
    for token in [&b""[..], b"NTLMSSP\0", &[0x60, 0]] {
        let refusal = accept(&settings(), token).err().expect("no ticket");
        assert_eq!(refusal.cause, Cause::Other);
    }
}

#[test]
fn kerberos_is_offered_while_a_keytab_exists() {
    let dir = tempfile::tempdir().unwrap();
    let keytab = dir.path().join("keytab");
    let tickets = Keytab {
        settings: Arc::new(Settings { keytab: keytab.clone(), ..settings() }),
        gate: Arc::new(Semaphore::new(1)),
        seen: Mutex::default(),
    };
    assert!(!tickets.ready());
    std::fs::write(&keytab, [5, 2]).unwrap();
    // Simulates that the cached result has expired.
    *tickets.seen.lock() = None;
    assert!(tickets.ready());
}
