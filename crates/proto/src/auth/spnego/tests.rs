//! Tokens of the specifications and of Windows, and invalid tokens.

use proptest::prelude::*;

use super::*;
use crate::crypto::hex;

/// [MS-SPNG] 4: a NegTokenInit2 with two mechanisms, a token of 254 bytes and the hint.
const INIT2: &str = "
    6082015d06062b0601050502a0820151 3082014da01a3018060a2b0601040182 3702021e060a2b06010401823702020a
    a28201010481fe4e45474f4558545301 00000000000000600000007000000 0cf fa11765e12599a347d766852bfce7097
    458710bb8242b4c7dfbad2da897aa311 a7d8684634309525 62dc13c554f20100 00000000000000600000000100000000
    000000000000005c33530deaf90d4db2 ec4ae3786ec3084e45474f4558545303 0000000100000040 0000008e000000cf
    fa11765e12599a347d766852bfce7 05c 33530deaf90d4db2ec4ae3786ec30840 0000004e000000304ca04a3048302a80
    28302631243022060355040313 1b584d 4c50726f766964657220496e7465726d 6564696174652043413 01a8018301631
    14301206035504031 30b584d4c50726f 7669646572a32a3028a0261b246e6f74 5f646566696e65645f696e5f52464334
    31373840706c656173655f69676e6f72 65";

#[test]
fn the_init2_of_the_specification() {
    let bytes = hex(INIT2);
    let Token::Init(token) = Token::decode(&bytes).expect("the example decodes") else { panic!("an initial token") };
    assert_eq!(token.mech_types, [MechType::NEGOEX, MechType::NTLMSSP]);
    assert_eq!(token.mech_types_der, encode_mech_types(&token.mech_types));
    assert_eq!(token.mech_token.map(|it| (it.len(), &it[..8])), Some((254, &b"NEGOEXTS"[..])));
    assert_eq!(token.mech_list_mic, None);
    assert!(token.offers(MechType::NTLMSSP) && !token.offers(MechType::KERBEROS));
    assert!(token.prefers(MechType::NEGOEX) && !token.prefers(MechType::NTLMSSP));
    assert_eq!(token.token_for(MechType::NEGOEX), token.mech_token);
    assert_eq!(token.token_for(MechType::NTLMSSP), None);
}

/// Computed by hand from the grammar: the NEGOTIATE token of a server that supports only NTLM.
#[test]
fn the_init2_of_a_server() {
    let bytes = encode_init2(&[MechType::NTLMSSP]);
    let expected = hex("
        604806062b0601050502a03e303ca00e300c060a2b06010401823702020aa32a3028a0261b24
        6e6f745f646566696e65645f696e5f5246433431373840706c656173655f69676e6f7265");
    assert_eq!(bytes, expected);
    let Token::Init(token) = Token::decode(&bytes).expect("the token of this implementation") else {
        panic!("an initial token")
    };
    assert_eq!((token.mech_types, token.mech_token), (vec![MechType::NTLMSSP], None));
    let kerberos = encode_init2(&[MechType::MS_KERBEROS, MechType::KERBEROS, MechType::NTLMSSP]);
    let list = hex("3022 06092a864882f712010202 06092a864886f712010202 060a2b06010401823702020a");
    let Token::Init(token) = Token::decode(&kerberos).expect("the token of this implementation") else {
        panic!("an initial token")
    };
    assert_eq!(token.mech_types_der, list);
}

/// The three tokens of a Windows client's and server's SESSION_SETUP in Microsoft's Open Specifications blog, "SMB 2
/// and SMB 3 security in Windows 10: the anatomy of signing and cryptographic keys" (2017), 3.1.1 example. The longer
/// ones are decoded and encoded again.
#[test]
fn tokens_of_windows() {
    let init = hex("
        604806062B0601050502A03E303CA00E300C060A2B06010401823702020AA22A
        04284E544C4D5353500001000000978208E200000000000000000000000000000000060380250000000F");
    let Token::Init(token) = Token::decode(&init).expect("a token") else { panic!("an initial token") };
    assert_eq!(token.mech_types, [MechType::NTLMSSP]);
    let ntlm = token.mech_token.expect("a token inside");
    assert!(is_ntlm(ntlm) && ntlm.len() == 40);
    assert_eq!(encode_init(token.mech_types_der, token.mech_token), init);
    assert_eq!(Token::decode(ntlm), Ok(Token::RawNtlm(ntlm)));

    let challenge = hex("
        A181B03081ADA0030A0101A10C060A2B06010401823702020AA281970481944E544C4D53535000020000000C000C0038
        00000015828AE20D1D8BA31179D008000000000000000050005000440000000A0092270000000F53
        005500540033003100310002000C0053005500540033003100310001000C00530055005400330031
        00310004000C0053005500540033003100310003000C0053005500540033003100310007000800A1
        A1F5ADCBAED00100000000");
    let Token::Resp(token) = Token::decode(&challenge).expect("a token") else { panic!("a response") };
    assert_eq!(token.neg_state, Some(NegState::ACCEPT_INCOMPLETE));
    assert_eq!(token.supported_mech, Some(MechType::NTLMSSP));
    assert_eq!(token.response_token.map(<[u8]>::len), Some(148));
    assert_eq!(token.encode(), challenge);

    let done = hex("A11B3019A0030A0100A3120410010000003B453CDC3524164200000000");
    let Token::Resp(token) = Token::decode(&done).expect("a token") else { panic!("a response") };
    assert_eq!(token.neg_state, Some(NegState::ACCEPT_COMPLETED));
    assert_eq!(token.mech_list_mic.map(<[u8]>::len), Some(16));
    assert_eq!((token.supported_mech, token.response_token), (None, None));
    assert_eq!(token.encode(), done);
}

#[test]
fn an_initial_token_with_all_fields() {
    let list = encode_mech_types(&[MechType::NTLMSSP]);
    let fields = |last: u8| {
        let mut fields = der::element(der::context(0), &list);
        fields.extend([0xA1, 4, 3, 2, 1, 6]);
        append_octets(&mut fields, 2, Some(b"token"));
        if last == 4 {
            fields.extend(der::element(der::context(3), &der::element(der::SEQUENCE, &[])));
        }
        append_octets(&mut fields, last, Some(b"mic"));
        fields
    };
    for last in [3, 4] {
        let bytes = initial(&fields(last));
        let Token::Init(token) = Token::decode(&bytes).expect("a token") else { panic!("an initial token") };
        assert_eq!((token.mech_token, token.mech_list_mic), (Some(&b"token"[..]), Some(&b"mic"[..])));
        // The same token without the GSS-API frame.
        let bare = der::element(der::context(0), &der::element(der::SEQUENCE, &fields(last)));
        assert_eq!(Token::decode(&bare), Ok(Token::Init(token)));
    }
    assert_eq!(Token::decode(&initial(&fields(5))), Err(Malformed::Structure));
}

#[test]
fn tokens_that_are_refused() {
    let good = encode_init(&encode_mech_types(&[MechType::NTLMSSP]), Some(b"token"));
    assert!(Token::decode(&good).is_ok());
    for length in 0..good.len() {
        assert!(Token::decode(&good[..length]).is_err(), "length {length}");
    }
    let trailing = [&good[..], &[0]].concat();
    assert_eq!(Token::decode(&trailing), Err(Malformed::Structure));
    let kerberos = der::element(der::APPLICATION_0, &der::element(der::OBJECT_IDENTIFIER, MechType::KERBEROS.0));
    assert_eq!(Token::decode(&kerberos), Err(Malformed::Value));
    assert_eq!(Token::decode(&initial(&[])), Err(Malformed::Structure));
    let many = [MechType::NTLMSSP; 33];
    assert_eq!(Token::decode(&encode_init(&encode_mech_types(&many), None)), Err(Malformed::Value));
    assert!(Token::decode(&encode_init(&encode_mech_types(&many[1..]), None)).is_ok());
    assert_eq!(Token::decode(&vec![0x60; 0x1_0000]), Err(Malformed::Value));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Token::decode(&bytes);
    }

    #[test]
    fn a_changed_token_decodes_to_what_it_encodes(at in 0usize..360, value: u8) {
        let mut bytes = hex(INIT2);
        let length = bytes.len();
        bytes[at % length] = value;
        if let Ok(Token::Init(token)) = Token::decode(&bytes) {
            prop_assert_eq!(encode_mech_types(&token.mech_types), token.mech_types_der);
        }
    }

    #[test]
    fn a_response_round_trips(
        state in proptest::option::of(any::<u8>()),
        token in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..400)),
        mic in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)),
    ) {
        let token = NegTokenResp {
            neg_state: state.map(NegState),
            supported_mech: state.map(|_| MechType::NTLMSSP),
            response_token: token.as_deref(),
            mech_list_mic: mic.as_deref(),
        };
        let bytes = token.encode();
        prop_assert_eq!(Token::decode(&bytes), Ok(Token::Resp(token)));
    }
}
