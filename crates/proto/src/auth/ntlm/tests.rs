//! The examples of [MS-NLMP] 4.2.4, and logons between initiator and acceptor.

use proptest::prelude::*;

use super::acceptor::{Acceptor, Claim, InvalidToken, LogonFailure, TargetNames};
use super::av_pair::{AvFlags, AvId, AvPairs};
use super::digest::{hmac_md5, rc4};
use super::initiator::{Credentials, Initiator, Random};
use super::message::{Authenticate, Challenge, Negotiate, is_ntlm};
use super::response::{NtlmV2Response, encode_client_challenge, proof, response_key, session_base_key};
use super::*;
use crate::bytes::{Malformed, utf16_bytes};
use crate::crypto::hex;

/// [MS-NLMP] 4.2.4.3.
const CHALLENGE: &str = "
    4e544c4d535350000200000 00c000c00 38000000 33828ae2 0123456789abcdef
    0000000000000000 24002400 44000000 060070170000000f 530065007200760065007200
    02000c0044006f006d00610069006e00 01000c00530065007200760065007200 00000000";

/// [MS-NLMP] 4.2.4.3.
const AUTHENTICATE: &str = "
    4e544c4d5353500003000000 180018006c000000 5400540084000000 0c000c0048000000 0800080054000000
    100010005c000000 10001000d8000000 358288e2 0501280a0000000f
    44006f006d00610069006e00 5500730065007200 43004f004d0050005500540045005200
    86c35097ac9cec102554764a57cccc19aaaaaaaaaaaaaaaa
    68cd0ab851e51c96aabc927bebef6a1c 0101000000000000 0000000000000000 aaaaaaaaaaaaaaaa 00000000
    02000c0044006f006d00610069006e00 01000c00530065007200760065007200 00000000 00000000
    c5dad2544fc979909 4ce1ce90bc9d03e";

const SERVER_CHALLENGE: [u8; 8] = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];

/// [MS-NLMP] 4.2.4.1 and 4.2.4.2.
#[test]
fn calculations_of_the_specification() {
    let hash = nt_hash("Password");
    // [MS-NLMP] 4.2.2.1.2.
    assert_eq!(hash[..], hex("a4f49c406510bdcab6824ee7c30fd852"));
    let key = response_key(&hash, &utf16_bytes("User"), &utf16_bytes("Domain"));
    assert_eq!(key[..], hex("0c868a403bfd7a93a3001ef22ef02e3f"));
    let av_pairs = hex("02000c0044006f006d00610069006e00 01000c00530065007200760065007200 00000000");
    let temp = encode_client_challenge(0, [0xaa; 8], &av_pairs);
    let nt_proof = proof(&key, &SERVER_CHALLENGE, &temp);
    assert_eq!(nt_proof[..], hex("68cd0ab851e51c96aabc927bebef6a1c"));
    let base_key = session_base_key(&key, &nt_proof);
    assert_eq!(base_key[..], hex("8de40ccadbc14a82f15cb0ad0de95ca3"));
    let lm_proof = hmac_md5(&key, &[&SERVER_CHALLENGE, &[0xaa; 8]]);
    assert_eq!(lm_proof[..], hex("86c35097ac9cec102554764a57cccc19"));
    let mut session_key = [0x55; 16];
    rc4(&base_key, &mut session_key);
    assert_eq!(session_key[..], hex("c5dad2544fc9799094ce1ce90bc9d03e"));
}

#[test]
fn messages_of_the_specification() {
    let bytes = hex(CHALLENGE);
    let challenge = Challenge::decode(&bytes).expect("the example decodes");
    assert_eq!(challenge.target_name, utf16_bytes("Server"));
    assert_eq!(challenge.server_challenge, SERVER_CHALLENGE);
    let pairs = AvPairs::decode(challenge.target_info).expect("the example decodes");
    assert_eq!(pairs.get(AvId::NB_DOMAIN_NAME), Some(&utf16_bytes("Domain")[..]));
    assert_eq!(pairs.get(AvId::NB_COMPUTER_NAME), Some(&utf16_bytes("Server")[..]));
    // The example's Version identifies a Windows release; this implementation's does not.
    let mut encoded = challenge.encode();
    encoded[48..56].copy_from_slice(&bytes[48..56]);
    assert_eq!(encoded, bytes);

    let bytes = hex(AUTHENTICATE);
    let authenticate = Authenticate::decode(&bytes).expect("the example decodes");
    assert_eq!(authenticate.domain_name, utf16_bytes("Domain"));
    assert_eq!(authenticate.user_name, utf16_bytes("User"));
    assert_eq!(authenticate.workstation, utf16_bytes("COMPUTER"));
    assert_eq!(authenticate.lm_challenge_response.len(), 24);
    assert_eq!(authenticate.encrypted_random_session_key, hex("c5dad2544fc9799094ce1ce90bc9d03e"));
    let response = NtlmV2Response::decode(authenticate.nt_challenge_response).expect("the example decodes");
    assert_eq!(response.expect("NTLMv2").av_pairs, pairs);
    assert_eq!(Authenticate::decode(&authenticate.encode()), Ok(authenticate));
}

/// The acceptor accepts the AUTHENTICATE_MESSAGE of [MS-NLMP] 4.2.4.3, with the example's session key.
#[test]
fn the_acceptor_accepts_the_example() {
    let mut acceptor = acceptor();
    let negotiate = Negotiate { negotiate_flags: NegotiateFlags(0xe28a_8233) }.encode();
    acceptor.challenge(&negotiate, SERVER_CHALLENGE, 0).expect("a negotiate message");
    let claim = acceptor.authenticate(&hex(AUTHENTICATE)).expect("the example decodes");
    assert_eq!((&claim.user[..], &claim.domain[..], &claim.workstation[..]), ("User", "Domain", "COMPUTER"));
    let session = acceptor.verify(&claim, Some(&nt_hash("Password"))).expect("the right password");
    assert_eq!(session.key().0, [0x55; 16]);
    assert_eq!(acceptor.verify(&claim, Some(&nt_hash("password"))).err(), Some(LogonFailure::Proof));
    assert_eq!(acceptor.verify(&claim, Some(&[0; 16])).err(), Some(LogonFailure::Proof));
    assert_eq!(acceptor.verify(&claim, None).err(), Some(LogonFailure::Proof));
}

/// The same message with a domain controller that decides. It gets the inputs of the proof, and its base key leads to
/// the same session key.
#[test]
fn a_domain_controller_verifies_the_response() {
    let mut acceptor = acceptor();
    let negotiate = Negotiate { negotiate_flags: NegotiateFlags(0xe28a_8233) }.encode();
    acceptor.challenge(&negotiate, SERVER_CHALLENGE, 0).expect("a negotiate message");
    let claim = acceptor.authenticate(&hex(AUTHENTICATE)).expect("the example decodes");
    let asked = acceptor.pass_through(&claim).expect("an NTLMv2 response");
    assert_eq!(asked.server_challenge, SERVER_CHALLENGE);
    assert_eq!(asked.decide(&nt_hash("password"), "User", "Domain"), None);
    assert_eq!(asked.decide(&nt_hash("Password"), "User", "Other"), None);
    let base_key = asked.decide(&nt_hash("Password"), "User", "Domain").expect("the right password");
    let session = acceptor.verified_elsewhere(&claim, &base_key).expect("the example has no MIC");
    assert_eq!(session.key().0, [0x55; 16]);
}

/// A Windows client's and server's logon in Microsoft's Open Specifications blog, "SMB 2 and SMB 3 security in Windows
/// 10: the anatomy of signing and cryptographic keys" (2017), 3.1.1 example: the MIC of the AUTHENTICATE_MESSAGE and
/// the mechListMIC of both sides, with the session key that the article gives.
#[test]
fn signatures_of_windows() {
    let negotiate = hex("4E544C4D5353500001000000978208E200000000000000000000000000000000060380250000000F");
    let challenge = hex("
        4E544C4D53535000020000000C000C003800000015828AE20D1D8BA31179D008000000000000000050005000440000000A00922700
        00000F53005500540033003100310002000C0053005500540033003100310001000C0053005500540033003100310004000C005300
        5500540033003100310003000C0053005500540033003100310007000800A1A1F5ADCBAED00100000000");
    let authenticate = hex("
        4E544C4D53535000030000001800180090000000EE00EE00A80000000C000C00580000001A001A0064000000120012007E000000
        1000100096010000158288E2060380250000000FECAC77A5F385A8BF9C38C706EEEDDCD353005500540033003100310061006400
        6D0069006E006900730074007200610074006F007200440052004900560045005200330031003100000000000000000000000000
        00000000000000000000000063078EB639FE03E20A231C3AE3BF23080101000000000000A1A1F5ADCBAED001BC4AD05F223CC90F
        0000000002000C0053005500540033003100310001000C0053005500540033003100310004000C00530055005400330031003100
        03000C0053005500540033003100310007000800A1A1F5ADCBAED001060004000200000008003000300000000000000000000000
        00300000B61FEFCAA857EA57BF1EDCEBF8974B8E0EBA5A6DFD9D07A31D11B548F8C9D0CC0A001000000000000000000000000000
        000000000900160063006900660073002F005300550054003300310031000000000000000000000000003B9BDFF38F5EE8F9663F
        11A0F4C03A78");
    let key: [u8; 16] = hex("270E1BA896585EEB7AF3472D3B4C75A7").try_into().expect("16 bytes");

    let (mic, zeroed) = super::message::without_mic(&authenticate).expect("a message with a MIC");
    assert_eq!(hmac_md5(&key, &[&negotiate, &challenge, &zeroed]), mic);

    let message = Authenticate::decode(&authenticate).expect("a Windows message");
    assert_eq!(message.user_name, utf16_bytes("administrator"));
    let response = NtlmV2Response::decode(message.nt_challenge_response).expect("a response").expect("NTLMv2");
    assert_eq!(response.av_pairs.flags(), Ok(AvFlags::MIC_PROVIDED));
    assert_eq!(response.av_pairs.get(AvId::TARGET_NAME), Some(&utf16_bytes("cifs/SUT311")[..]));

    let session = Session::new(SessionKey(key), message.negotiate_flags);
    let mech_types = hex("300C060A2B06010401823702020A");
    for (sender, mic) in
        [(Sender::Client, "0100000063775A9A5FD97F0600000000"), (Sender::Server, "010000003B453CDC3524164200000000")]
    {
        assert!(session.verify_mech_list_mic(sender, &mech_types, &hex(mic)), "{sender:?}");
    }
}

fn acceptor() -> Acceptor {
    Acceptor::new(TargetNames {
        netbios_computer: "FILES".into(),
        netbios_domain: "FILES".into(),
        dns_computer: "files.example".into(),
        dns_domain: "example".into(),
        domain_joined: false,
    })
}

fn initiator(user: &str, domain: &str, password: &str) -> Initiator {
    let credentials = Credentials { user: user.into(), domain: domain.into(), nt_hash: nt_hash(password) };
    Initiator::new(Some(credentials), "DESK", "cifs/files.example")
}

const RANDOM: Random = Random { client_challenge: [0xaa; 8], session_key: [0x77; 16] };

/// Runs a logon up to the AUTHENTICATE_MESSAGE.
fn logon(initiator: &Initiator) -> (Acceptor, Vec<u8>, Session) {
    let mut acceptor = acceptor();
    let challenge = acceptor.challenge(initiator.negotiate(), SERVER_CHALLENGE, 0x01d0_aeba).expect("a challenge");
    let (message, session) = initiator.authenticate(&challenge, &RANDOM, 5).expect("an answer");
    (acceptor, message, session)
}

#[test]
fn a_logon() {
    for (user, domain) in [("ann", "DESK"), ("Änne", ""), ("ann@example", ""), ("DESK\\ann", "x")] {
        let (acceptor, message, ours) = logon(&initiator(user, domain, "secret"));
        let claim = acceptor.authenticate(&message).expect("the message of this implementation");
        assert_eq!((&claim.user[..], &claim.domain[..], claim.anonymous), (user, domain, false));
        assert_eq!(claim.target_name.as_deref(), Some("cifs/files.example"));
        let theirs = acceptor.verify(&claim, Some(&nt_hash("secret"))).expect("the right password");
        assert_eq!(theirs.key().0, [0x77; 16]);
        let mic = ours.mech_list_mic(Sender::Client, b"list").expect("extended session security");
        assert!(theirs.verify_mech_list_mic(Sender::Client, b"list", &mic));
        assert_eq!(acceptor.verify(&claim, Some(&nt_hash("Secret"))).err(), Some(LogonFailure::Proof));
        assert_eq!(acceptor.verify(&claim, None).err(), Some(LogonFailure::Proof));
    }
}

#[test]
fn the_client_extends_the_target_information() {
    let (_, message, _) = logon(&initiator("ann", "DESK", "secret"));
    let message = Authenticate::decode(&message).expect("the message of this implementation");
    assert_eq!(message.lm_challenge_response, [0; 24]);
    let response = NtlmV2Response::decode(message.nt_challenge_response)
        .expect("the message of this implementation")
        .expect("NTLMv2");
    assert_eq!(response.av_pairs.flags(), Ok(AvFlags::MIC_PROVIDED));
    assert_eq!(response.av_pairs.timestamp(), Ok(Some(0x01d0_aeba)));
    assert_eq!(response.client_challenge[8..16], 0x01d0_aebau64.to_le_bytes());
    assert_eq!(response.av_pairs.get(AvId::CHANNEL_BINDINGS), Some(&[0; 16][..]));
    assert_eq!(response.av_pairs.get(AvId::TARGET_NAME), Some(&utf16_bytes("cifs/files.example")[..]));
}

/// A client that does not hash the domain although it sends one ([MS-NLMP] 3.2.5.1.2).
#[test]
fn a_client_that_leaves_the_domain_out_of_the_key() {
    let initiator = initiator("ann", "", "secret");
    let mut acceptor = acceptor();
    let challenge = acceptor.challenge(initiator.negotiate(), SERVER_CHALLENGE, 1).expect("a challenge");
    let (message, session) = initiator.authenticate(&challenge, &RANDOM, 5).expect("an answer");
    let mut decoded = Authenticate::decode(&message).expect("the message of this implementation");
    let domain = utf16_bytes("DESK");
    decoded.domain_name = &domain;
    let mut other = decoded.encode();
    let mic = hmac_md5(&session.key().0, &[initiator.negotiate(), &challenge, &other]);
    super::message::set_mic(&mut other, &mic);
    let claim = acceptor.authenticate(&other).expect("the message of this implementation");
    assert_eq!(claim.domain, "DESK");
    assert!(acceptor.verify(&claim, Some(&nt_hash("secret"))).is_ok());
}

/// A client that supports only the OEM character set ([MS-NLMP] 2.2.2.5) gets its challenge and writes its names in it.
#[test]
fn a_client_without_unicode() {
    for (user, oem) in [("ann", &b"ann"[..]), ("J\u{f6}rg", b"J\x94rg")] {
        let initiator = initiator(user, "DESK", "secret");
        let mut negotiate = initiator.negotiate().to_vec();
        negotiate[12] = negotiate[12] & !1 | 2;
        let mut acceptor = acceptor();
        let challenge = acceptor.challenge(&negotiate, SERVER_CHALLENGE, 1).expect("a challenge");
        let decoded = Challenge::decode(&challenge).expect("the message of this implementation");
        assert!(decoded.negotiate_flags.contains(NegotiateFlags::NEGOTIATE_OEM));
        assert!(!decoded.negotiate_flags.contains(NegotiateFlags::NEGOTIATE_UNICODE));
        assert!(decoded.target_name.is_ascii() && !decoded.target_name.contains(&0));
        // The response is the same, whatever the character set of the names.
        let spoken =
            Challenge { negotiate_flags: decoded.negotiate_flags | NegotiateFlags::NEGOTIATE_UNICODE, ..decoded };
        let (message, session) = initiator.authenticate(&spoken.encode(), &RANDOM, 5).expect("an answer");
        let own = Authenticate::decode(&message).expect("the message of this implementation");
        let flags = NegotiateFlags(own.negotiate_flags.0 & !NegotiateFlags::NEGOTIATE_UNICODE.0);
        let sent = Authenticate {
            user_name: oem,
            domain_name: b"DESK",
            workstation: b"ODD",
            negotiate_flags: flags | NegotiateFlags::NEGOTIATE_OEM,
            ..own
        };
        let mut sent = sent.encode();
        let mic = hmac_md5(&session.key().0, &[&negotiate, &challenge, &sent]);
        super::message::set_mic(&mut sent, &mic);
        let claim = acceptor.authenticate(&sent).expect("names in the OEM character set");
        assert_eq!((&claim.user[..], &claim.domain[..], &claim.workstation[..]), (user, "DESK", "ODD"));
        assert!(acceptor.verify(&claim, Some(&nt_hash("secret"))).is_ok());
    }
    let mut neither = initiator("ann", "", "secret").negotiate().to_vec();
    neither[12] &= !3;
    assert_eq!(acceptor().challenge(&neither, SERVER_CHALLENGE, 1), Err(InvalidToken::Encoding));
}

/// Changing any byte of the client's last message invalidates the proof, the MIC or the message.
#[test]
fn no_byte_can_be_changed() {
    let (acceptor, message, _) = logon(&initiator("ann", "DESK", "secret"));
    let hash = nt_hash("secret");
    assert!(acceptor.authenticate(&message).is_ok_and(|claim| acceptor.verify(&claim, Some(&hash)).is_ok()));
    for at in 0..message.len() {
        for bit in [0x01, 0x20, 0x80] {
            let mut changed = message.clone();
            changed[at] ^= bit;
            let accepted =
                acceptor.authenticate(&changed).is_ok_and(|claim| acceptor.verify(&claim, Some(&hash)).is_ok());
            assert!(!accepted, "byte {at} bit {bit:#x}");
        }
    }
    for length in 0..message.len() {
        let accepted =
            acceptor.authenticate(&message[..length]).is_ok_and(|claim| acceptor.verify(&claim, Some(&hash)).is_ok());
        assert!(!accepted, "length {length}");
    }
}

#[test]
fn a_changed_negotiate_message_spoils_the_mic() {
    let initiator = initiator("ann", "DESK", "secret");
    let mut negotiate = initiator.negotiate().to_vec();
    negotiate[15] ^= 0x40;
    let mut acceptor = acceptor();
    let challenge = acceptor.challenge(&negotiate, SERVER_CHALLENGE, 1).expect("a challenge");
    let (message, _) = initiator.authenticate(&challenge, &RANDOM, 5).expect("an answer");
    let claim = acceptor.authenticate(&message).expect("the message of this implementation");
    assert_eq!(acceptor.verify(&claim, Some(&nt_hash("secret"))).err(), Some(LogonFailure::Mic));
    assert_eq!(acceptor.verified_elsewhere(&claim, &[7; 16]).err(), Some(LogonFailure::Mic));
}

#[test]
fn an_old_response_is_refused() {
    let (acceptor, message, _) = logon(&initiator("ann", "DESK", "secret"));
    let mut decoded = Authenticate::decode(&message).expect("the message of this implementation");
    for response in [&[0x11; 24][..], &[]] {
        decoded.nt_challenge_response = response;
        let claim = acceptor.authenticate(&decoded.encode()).expect("a message");
        assert!(!claim.anonymous);
        assert_eq!(acceptor.verify(&claim, Some(&nt_hash("secret"))).err(), Some(LogonFailure::NotNtlmV2));
        assert_eq!(acceptor.pass_through(&claim).err(), Some(LogonFailure::NotNtlmV2));
    }
}

#[test]
fn an_anonymous_logon() {
    let initiator = Initiator::new(None, "DESK", "");
    let (acceptor, message, ours) = logon(&initiator);
    let claim = acceptor.authenticate(&message).expect("the message of this implementation");
    assert!(claim.anonymous && claim.user.is_empty());
    assert_eq!(acceptor.verify(&claim, Some(&[0; 16])).err(), Some(LogonFailure::Anonymous));
    assert_eq!(claim.null_session().key().0, ours.key().0);
    // With a name or a response, it is not anonymous.
    let name = utf16_bytes("ann");
    let mut decoded = Authenticate::decode(&message).expect("the message of this implementation");
    decoded.user_name = &name;
    assert!(acceptor.authenticate(&decoded.encode()).is_ok_and(|claim| !claim.anonymous));
    decoded.user_name = &[];
    decoded.lm_challenge_response = &[1];
    assert!(acceptor.authenticate(&decoded.encode()).is_ok_and(|claim| !claim.anonymous));
}

#[test]
fn tokens_out_of_order_or_shape() {
    let initiator = initiator("ann", "DESK", "secret");
    let (mut acceptor, message, _) = logon(&initiator);
    assert_eq!(self::acceptor().authenticate(&message).err(), Some(InvalidToken::Order));
    assert_eq!(acceptor.challenge(initiator.negotiate(), [0; 8], 0), Err(InvalidToken::Order));
    let neither = Negotiate { negotiate_flags: NegotiateFlags::NEGOTIATE_NTLM }.encode();
    assert_eq!(self::acceptor().challenge(&neither, [0; 8], 0), Err(InvalidToken::Encoding));
    let structure = Err(InvalidToken::Malformed(Malformed::Structure));
    assert_eq!(self::acceptor().challenge(&message, [0; 8], 0), structure);
    assert_eq!(acceptor.authenticate(initiator.negotiate()).err(), structure.err());
    for length in 0..16 {
        let cut = self::acceptor().challenge(&initiator.negotiate()[..length], [0; 8], 0);
        assert_eq!(cut, Err(InvalidToken::Malformed(Malformed::Truncated)));
    }
    assert!(is_ntlm(&message) && !is_ntlm(&message[..7]) && !is_ntlm(b"NTLMSSP"));
    let mut no_key = Authenticate::decode(&message).expect("the message of this implementation");
    no_key.encrypted_random_session_key = &[1; 15];
    let refused = acceptor.authenticate(&no_key.encode()).err();
    assert_eq!(refused, Some(InvalidToken::Malformed(Malformed::Value)));
}

#[test]
fn flags_of_the_challenge() {
    let chosen = |requested: NegotiateFlags| {
        let negotiate = Negotiate { negotiate_flags: requested | NegotiateFlags::NEGOTIATE_UNICODE }.encode();
        let challenge = acceptor().challenge(&negotiate, [0; 8], 0).expect("a challenge");
        Challenge::decode(&challenge).expect("the message of this implementation").negotiate_flags
    };
    let ours = NegotiateFlags(0x0082_8205);
    assert_eq!(chosen(NegotiateFlags::NONE), ours);
    let strong = NegotiateFlags::NEGOTIATE_128 | NegotiateFlags::NEGOTIATE_56;
    assert_eq!(chosen(strong), ours);
    assert_eq!(chosen(strong | NegotiateFlags::NEGOTIATE_SIGN), ours | strong | NegotiateFlags::NEGOTIATE_SIGN);
    assert_eq!(chosen(NegotiateFlags(0xffff_ffff)), ours | NegotiateFlags(0xe208_0030));
}

#[test]
fn a_weak_server_gets_no_answer() {
    let initiator = initiator("ann", "DESK", "secret");
    let with = |flags: NegotiateFlags, target_info: &[u8]| {
        let challenge =
            Challenge { target_name: &[], negotiate_flags: flags, server_challenge: SERVER_CHALLENGE, target_info };
        initiator.authenticate(&challenge.encode(), &RANDOM, 5).map(|(_, session)| session.flags())
    };
    let names = hex("02000200 4400 01000200 5300 00000000");
    let flags = NegotiateFlags(0xe28a_8233);
    assert!(with(flags, &names).is_ok());
    assert_eq!(with(flags, &[0; 4]).err(), Some(InvalidToken::TargetInfo));
    assert_eq!(with(flags.without(NegotiateFlags::NEGOTIATE_128), &names).err(), Some(InvalidToken::TargetInfo));
    assert_eq!(with(flags.without(NegotiateFlags::NEGOTIATE_UNICODE), &names).err(), Some(InvalidToken::Encoding));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(head in 0u32..4, tail in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut bytes = [&b"NTLMSSP\0"[..], &head.to_le_bytes()].concat();
        bytes.extend_from_slice(&tail);
        for token in [&bytes, &tail] {
            let _ = acceptor().challenge(token, [0; 8], 0);
            let initiator = initiator("ann", "DESK", "secret");
            let _ = initiator.authenticate(token, &RANDOM, 5);
            let (acceptor, ..) = logon(&initiator);
            let claim: Result<Claim, _> = acceptor.authenticate(token);
            if let Ok(claim) = claim {
                prop_assert!(acceptor.verify(&claim, Some(&nt_hash("secret"))).is_err());
                let _ = claim.null_session();
            }
        }
    }

    #[test]
    fn no_change_of_a_message_makes_it_panic(at in 0usize..400, value: u8, cut in 0usize..400) {
        let (acceptor, mut message, _) = logon(&initiator("ann", "DESK", "secret"));
        let length = message.len();
        message[at % length] = value;
        message.truncate(length - cut % length);
        if let Ok(claim) = acceptor.authenticate(&message) {
            let _ = acceptor.verify(&claim, Some(&nt_hash("secret")));
        }
    }
}
