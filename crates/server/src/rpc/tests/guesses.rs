//! Passwords that are guessed through pipes.

use std::net::IpAddr;
use std::time::Duration;

use proto::auth::ntlm::change::{SEALED_PASSWORD, seal_password};
use proto::auth::ntlm::{Credentials, Initiator, Random, nt_hash};
use proto::rpc::auth::{AuthLevel, AuthType, Trailer};
use proto::rpc::ndr::Encoder;
use proto::rpc::pdu::{Header, PduType};
use proto::rpc::samr::opnum;

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

/// Returns whether a guess has to wait for others.
fn waits(pipe: &PipeClient, name: &str, from: IpAddr) -> bool {
    let guess = Guess { name, from: from.into(), asked: Duration::ZERO };
    let verdict = pipe.client.connection.server.logons.throttle.failed(guess, Duration::ZERO);
    !matches!(verdict, Verdict::At { first: true, .. })
}

#[test]
fn a_password_is_guessed_through_a_pipe_as_slowly_as_at_a_logon() {
    for try_with in [bind_with, change_with] {
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
