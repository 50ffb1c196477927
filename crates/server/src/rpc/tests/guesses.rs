//! Passwords that are guessed through pipes.

use std::net::IpAddr;
use std::time::Duration;

use proto::auth::ntlm::change::{KeyDerivation, SEALED_PASSWORD, seal_password, seal_password_aes};
use proto::auth::ntlm::{Credentials, Initiator, Random, nt_hash};
use proto::rpc::auth::{AuthLevel, AuthType, Trailer};
use proto::rpc::ndr::Encoder;
use proto::rpc::pdu::{Header, PduType};
use proto::rpc::samr::opnum;
use proto::status::Status;

use super::client::{self, PipeClient};
use crate::logon_throttle::{Guess, Verdict};
use crate::testing::{self, TestClient, TestServer};

/// Sends a bind with a proof for `password`, and makes a call.
fn bind_with(pipe: &mut PipeClient, password: &str) {
    let credentials = Credentials { user: "alice".into(), domain: String::new(), nt_hash: nt_hash(password) };
    let initiator = Initiator::new(Some(credentials), "TEST", "");
    let trailer = Trailer { kind: AuthType::WINNT, level: AuthLevel::PKT_INTEGRITY, padding: 0, context: 0 };
    let mut bind = client::bind("samr");
    trailer.with_token(&mut bind, initiator.negotiate());
    pipe.write(&bind);
    let answer = pipe.read();
    let header = Header::decode(&answer).expect("an answer");
    let (_, at) = Trailer::decode(&header, &answer).expect("decodes").expect("a challenge");
    let random = Random { client_challenge: [4; 8], session_key: [5; 16] };
    let (proof, _) =
        initiator.authenticate(Trailer::value(&answer, at), &random, 0).expect("an NTLM response to an NTLM message");
    let mut auth3 = client::pdu_of(PduType::AUTH3, |out| out.zeros(4));
    trailer.with_token(&mut auth3, &proof);
    pipe.write(&auth3);
}

/// Changes alice's password, with `password` as the old one.
fn change_with(pipe: &mut PipeClient, password: &str) {
    pipe.write(&client::bind("samr"));
    pipe.read();
    let (sealed, proof) =
        seal_password(&nt_hash(password), "another", &[7; SEALED_PASSWORD]).expect("the buffer is long enough");
    let mut out = Encoder::default();
    out.null();
    out.unicode("alice");
    out.text("alice");
    out.pointer();
    out.array(1, &sealed);
    out.pointer();
    out.array(1, &proof);
    pipe.call(opnum::SAMR_UNICODE_CHANGE_PASSWORD_USER_2, &out.into_bytes());
}

/// Changes alice's password by AES, with `password` as the old one.
fn change_with_aes(pipe: &mut PipeClient, password: &str) {
    change_after(pipe, password, 5000);
}

/// Changes alice's password by AES with this number of iterations, and returns the status.
fn change_after(pipe: &mut PipeClient, password: &str, iterations: u64) -> Vec<u8> {
    pipe.write(&client::bind("samr"));
    pipe.read();
    let salt = [6; 16];
    let mut derivation = KeyDerivation::new(&nt_hash(password), &salt, iterations.min(5000));
    let key = derivation.advance(u64::MAX).expect("all iterations");
    let (auth_data, cipher) = seal_password_aes(&*key, "another", salt).expect("it fits");
    let mut out = Encoder::default();
    out.null();
    out.unicode("alice");
    out.text("alice");
    out.array(8, &auth_data);
    out.array(1, &salt);
    out.u32(cipher.len() as u32);
    out.pointer();
    out.array(8, &iterations.to_le_bytes());
    out.u32(cipher.len() as u32);
    out.array(1, &cipher);
    pipe.call(opnum::SAMR_UNICODE_CHANGE_PASSWORD_USER_4, &out.into_bytes())
}

#[test]
fn a_number_of_iterations_that_is_not_allowed_is_refused() {
    let status = |iterations| {
        let mut pipe = PipeClient::open(TestClient::logged_on(&TestServer::new(), "alice"), "samr");
        change_after(&mut pipe, testing::PASSWORD, iterations)
    };
    let wrong = Status::WRONG_PASSWORD.0.to_le_bytes();
    assert_ne!(status(5000), wrong);
    for iterations in [0, 4999, 1_000_001, u64::MAX] {
        assert_eq!(status(iterations), wrong, "{iterations}");
    }
}

/// Returns whether a guess has to wait for others.
fn waits(pipe: &PipeClient, name: &str, from: IpAddr) -> bool {
    let guess = Guess { name, from: from.into(), asked: Duration::ZERO };
    let verdict = pipe.client.connection.server.logons.throttle.failed(guess, Duration::ZERO);
    !matches!(verdict, Verdict::At { first: true, .. })
}

#[test]
fn a_password_is_guessed_through_a_pipe_as_slowly_as_at_a_logon() {
    for try_with in [bind_with, change_with, change_with_aes] {
        for (password, counts) in [(testing::PASSWORD, false), ("wrong", true)] {
            let mut pipe = PipeClient::open(TestClient::logged_on(&TestServer::new(), "alice"), "samr");
            try_with(&mut pipe, password);
            let elsewhere = IpAddr::from([192, 0, 2, 1]);
            let here = pipe.client.connection.peer.remote.ip();
            assert_eq!(waits(&pipe, "Alice", elsewhere), counts, "{password}");
            assert_eq!(waits(&pipe, "bob", here), counts, "{password}");
            assert!(!waits(&pipe, "carol", elsewhere));
        }
    }
}
