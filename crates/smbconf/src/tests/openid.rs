//! Tests of the parameters of OpenID Connect.

use super::*;

fn errors(lines: &str) -> Vec<(Option<u32>, String)> {
    let problems = match read_text(format!("[global]\n{lines}\n[x]\npath = /\n").as_bytes()) {
        Ok(loaded) => loaded.warnings,
        Err(problems) => problems,
    };
    let shown = |it: &Problem| (it.place.as_ref().map(|place| place.line), format!("{}; {}", it.message, it.remedy));
    problems.0.iter().filter(|it| it.severity != Severity::Note).map(shown).collect()
}

#[test]
fn an_issuer_needs_a_client() {
    let found = errors("frevo:openid issuer = https://id.example");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].0 == Some(2) && found[0].1.contains("add `frevo:openid client id = NAME`"), "{found:?}");
}

#[test]
fn the_settings_are_read() {
    let text = "[global]\nfrevo:openid issuer = https://id.example/realms/a\nfrevo:openid client id = nas\n\
                frevo:openid client secret file = /etc/frevo/secret\nfrevo:console url = https://nas.example\n";
    let openid = read_text(text.as_bytes()).expect("a valid configuration").daemon.openid.expect("an issuer");
    assert_eq!(openid.secret_place.as_ref().map(|place| place.line), Some(4));
    let expected = OpenId {
        issuer: "https://id.example/realms/a".into(),
        client: "nas".into(),
        secret_file: Some("/etc/frevo/secret".into()),
        secret_place: openid.secret_place.clone(),
        user_claim: "preferred_username".into(),
        scopes: vec!["openid".into(), "profile".into()],
        console_url: Some("https://nas.example/".into()),
    };
    assert_eq!(openid, expected);
    assert_eq!(read_text(b"[global]\n").expect("a valid configuration").daemon.openid, None);
}

#[test]
fn a_wrong_value_is_named_with_its_line_and_remedy() {
    let base = "frevo:openid issuer = https://id.example\nfrevo:openid client id = nas\n";
    for (line, what) in [
        ("frevo:openid client secret file = hunter2", "the absolute path of a file with the secret"),
        ("frevo:openid scopes = profile", "a list with openid"),
        ("frevo:openid user claim = a b", "the name of a claim"),
        ("frevo:console url = http://nas.example", "https://HOST"),
    ] {
        let found = errors(&format!("{base}{line}"));
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        let value = line.rsplit(" = ").next().expect("a value");
        assert!(found[0].0 == Some(4) && found[0].1.contains(what) && found[0].1.contains(value), "{found:?}");
    }
    let found = errors("frevo:openid issuer = http://id.example\nfrevo:openid client id = nas");
    assert!(found.len() == 1 && found[0].0 == Some(2) && found[0].1.contains("https://HOST"), "{found:?}");
    let found = errors("frevo:openid scopes = openid email");
    assert!(found.len() == 1 && found[0].1.contains("has no effect"), "{found:?}");
}
