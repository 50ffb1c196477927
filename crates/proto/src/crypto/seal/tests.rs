//! Golden frames of the four ciphers, and frames that must not open.

use super::*;
use crate::crypto::hex;

/// Checks that a sealed frame opens to the plaintext, that sealing the plaintext with the frame's nonce gives the
/// frame, and that no frame with a flipped bit opens.
fn check(cipher: CipherId, key: &str, sealed: &str, plaintext: &str) {
    let key = SealingKey::new(cipher, &hex(key)).expect("a key that fits");
    let (sealed, plaintext) = (hex(sealed), hex(plaintext));
    assert_eq!(key.open(&mut sealed.clone()).map(|opened| opened.to_vec()), Ok(plaintext.clone()), "{key:?}");

    let nonce = sealed[20..36].try_into().expect("16 bytes");
    let session_id = u64::from_le_bytes(sealed[44..52].try_into().expect("8 bytes"));
    let mut frame = vec![0xEE; TRANSFORM_HEADER];
    frame.extend_from_slice(&plaintext);
    key.seal_with(session_id, nonce, &mut frame);
    assert_eq!(frame, sealed, "{key:?}");

    for at in 0..sealed.len() {
        let mut broken = sealed.clone();
        broken[at] ^= 1;
        assert!(key.open(&mut broken).is_err(), "{key:?} byte {at}");
    }
    for length in 0..sealed.len() {
        assert!(key.open(&mut sealed[..length].to_vec()).is_err(), "{key:?} length {length}");
    }
}

/// Microsoft Open Specifications blog, "Encryption in SMB 3.0: A protocol perspective" (2012): WRITE request, WRITE
/// response, READ request, READ response.
#[test]
fn aes_128_ccm() {
    check(
        CipherId::AES_128_CCM,
        "261B72350558F2E9DCF613070383EDBF",
        "FD534D4281A286535415445DAE393921E44FA42E66E69A111892584FB5ED524A
         744DA3EE87000000000001001100001400E4080025C8FEE16605A437832D1CD5
         2DA9F4645333482A175FE5384563F45FCDAFAEF38BC62BA4D5C62897996625A4
         4C29BE5658DE2E6117585779E7B59FFD971278D08580D7FA899E410E910EABF5
         AA1DB43050B33B49182637759AC15D84BFCDF5B6B238993C0F4CF4D6012023F6
         C627297075D84B7803912D0A9639634453595EF3E33FFE4E7AC2AB",
        "FE534D4240000100000000000900400008000000000000000400000000000000
         FFFE0000010000001100001400E4080000000000000000000000000000000000
         3100700017000000000000000000000015010000390000020100000039020000
         00000000000000007000000000000000536D623320656E6372797074696F6E20
         74657374696E67",
    );
    check(
        CipherId::AES_128_CCM,
        "8FE2B57EC34D2DB5B1A9727F526BBDB5",
        "FD534D42A6015530A18F6D9AFFE22AFAE8E66484860000000000000011000014
         00E4080050000000000001001100001400E40800DBF46435C5F14169293CE079
         E344479BF670227E49873F458672C3098DAC467DD5809F369D67409166515787
         1483E01F7BECD02064EAC3E235F913668BBC2F097980D4B378F1993EFF6E60D1
         77309E5B",
        "FE534D4240000100000000000900210009000000000000000400000000000000
         FFFE0000010000001100001400E4080000000000000000000000000000000000
         11000000170000000000000000000000",
    );
    check(
        CipherId::AES_128_CCM,
        "261B72350558F2E9DCF613070383EDBF",
        "FD534D42E93601498B76D6F7A72D5EF9B6C79FAFA5123A25F983E245983F413B
         8B429AF271000000000001001100001400E408009A464F709AA663F8C2FC3907
         D63CBF6F98B1E3DD649ED366009FD0B40A365224718E5440E053F6E01AE462FD
         B721BF91C3A6E52E14F9EFF005F445761289FF1272908B52754C8FCB949F228A
         C104A66204289A205BCBC47509D04AF9A907002B96863358B3B7CBA5E3779300
         74FCDF3550",
        "FE534D4240000100000000000800400008000000000000000500000000000000
         FFFE0000010000001100001400E4080000000000000000000000000000000000
         3100000017000000000000000000000015010000390000020100000039020000
         0000000000000000000000000000000000",
    );
    check(
        CipherId::AES_128_CCM,
        "8FE2B57EC34D2DB5B1A9727F526BBDB5",
        "FD534D42ABD518B68C2F04D7879F482B689EB83F870000000000000011000014
         00E4080067000000000001001100001400E40800493D6FE2BDBEB435CF5F5469
         70C7BB57BF20E713C75A3D045507E0D68E5C0346659D6FFB8AC1504A786CA2BB
         89C9E7FE4F313E910A04180D2D0EA7DF636329E5A3285984500EF86FE9D55DA4
         FAB9531CFDD4C551D47F3C73124BB4590A45052B694048B991CCF5",
        "FE534D4240000100000000000800210009000000000000000500000000000000
         FFFE0000010000001100001400E4080000000000000000000000000000000000
         11005000170000000000000000000000536D623320656E6372797074696F6E20
         74657374696E67",
    );
}

/// Microsoft Open Specifications blog, "SMB 3.1.1 Encryption in Windows 10" (2015), appendix A.1: the same four.
#[test]
fn aes_128_gcm() {
    check(
        CipherId::AES_128_GCM,
        "A2F5E80E5D59103034F32E52F698E5EC",
        "FD534D42BD73D97D2BC9001BCAFAC0FDFF5FEEBCC7D6822D269CAF48904C664C0000000087000000
         0000010025000000001000006ECDD2A7AFC7B47763057A041B8FD4DAFFE990B70C9E09D36C084E02
         D14EF247F8BDE38ACF6256F8B1D3B56F77FBDEB312FEA5E92CBCC1ED8FB2EBBFAA75E49A4A394BB4
         4576545567C24D4C014D47C9FBDFDAFD2C4F9B72F8D256452620A299F48E29E53D6B61D1C13A19E9
         1AF013F00D17E3ABC2FC3D36C8C1B6B93973253852DBD442E46EE8",
        "FE534D4240000100000000000900010008000000000000000500000000000000FFFE000001000000
         25000000001000000000000000000000000000000000000031007000170000000000000000000000
         0600000004000000010000000400000000000000000000007000000000000000536D623320656E63
         72797074696F6E2074657374696E67",
    );
    check(
        CipherId::AES_128_GCM,
        "748C50868C90F302962A5C35F5F9A8BF",
        "FD534D42ACBE1CB7ED343ADF1725EF144D90D4B0E06831DD2E8EB7B4000000000000000050000000
         00000100250000000010000026BBBF949983A6C1C796559D0F2C510CB651D1F7B6AC8DED32A2A0B8
         F2D793A815C6F6B848D69767A215841A42D400AE6DDB5F0B44173A014973321FDD7950DA6179159B
         82E03C9E18A050FF0EA1C967",
        "FE534D4240000100000000000900010001000000000000000500000000000000FFFE000001000000
         25000000001000000000000000000000000000000000000011000000170000000000000000000000",
    );
    check(
        CipherId::AES_128_GCM,
        "A2F5E80E5D59103034F32E52F698E5EC",
        "FD534D426DAC0B6FD85A3ED42BB917DA38FE0386D7AA8C6D36859243B715E0A60000000071000000
         00000100250000000010000088A47BF09CA3C3141CDD7306BE9D9475AB24FCCB833D77461C041F8F
         B983D0C188F0729272B31D9D3D0DC6B687C069EEE0CC8EACA2C536D019ACC9E185D1EB630E0FCB79
         3EEECEB06D82A1D77706E700DBEBFB4FEB54D7AD2D97E7288804F90757FE4D08D6A84A3FF433E745
         1E768E4699",
        "FE534D4240000100000000000800010008000000000000000600000000000000FFFE000001000000
         25000000001000000000000000000000000000000000000031000000170000000000000000000000
         060000000400000001000000040000000000000000000000000000000000000000",
    );
    check(
        CipherId::AES_128_GCM,
        "748C50868C90F302962A5C35F5F9A8BF",
        "FD534D427F714B3B9D8FA1198584E71C2BAA1CB6E16831DD2E8EB7B4000000000000000067000000
         000001002500000000100000FECEDF4D03BB11A6CC5D8A53BE33D6D8701986342B4197D306E16F9C
         BB218E92F7F8281F51CE68BB85A20D87DE90EBBF80538066D1C37513C0A58D70936D537B624F5500
         202A612B6CD30D448A82791A0B2E049ED512AFAEFB06E98AB3D6F931D7D50DB2DBD36A",
        "FE534D4240000100000000000800010001000000000000000600000000000000FFFE000001000000
         25000000001000000000000000000000000000000000000011005000170000000000000000000000
         536D623320656E6372797074696F6E2074657374696E67",
    );
}

/// Computed with Python's `cryptography` (AESGCM and AESCCM) from the plaintext of the WRITE response above, key
/// 00..1f, session 0x100000000025 and nonce counter 0x0102030405060708.
#[test]
fn keys_of_256_bits_and_the_nonce_of_a_counter() {
    let key: Vec<u8> = (0..32).collect();
    let plaintext = hex("
        FE534D4240000100000000000900010001000000000000000500000000000000FFFE000001000000
        25000000001000000000000000000000000000000000000011000000170000000000000000000000");
    for (cipher, sealed) in [
        (
            CipherId::AES_256_GCM,
            "fd534d42ea740b51a5d4c31c5d2733f0d6c7f1d90807060504030201000000000000000050000000\
         00000100250000000010000049ec3c27d246636a159beb2bd7959dca384499cec92b14e5df2e7390\
         3e4b0562d6f3b03d53e14652eb723a8938c0e86ff1df51b79f2f507726423bc354c3703b9b3df578\
         1f07d82e4227b3bb7cb2dd7c",
        ),
        (
            CipherId::AES_256_CCM,
            "fd534d429be817d0e627f736b31803e4250773d80807060504030201000000000000000050000000\
         000001002500000000100000e5f3efad5cefa0e6d85a18840f768d80d905ac0e72e79faf59ab736b\
         afde151662d56b15623e722ebbf5701c7071fa2476ff2b449ead35565ed685cc77ca75c184e7044f\
         9513da24aab43aa1d795f083",
        ),
    ] {
        let key = SealingKey::new(cipher, &key).expect("a key of 32 bytes");
        let mut frame = vec![0xEE; TRANSFORM_HEADER];
        frame.extend_from_slice(&plaintext);
        key.seal(0x1000_0000_0025, 0x0102_0304_0506_0708, &mut frame);
        assert_eq!(frame, hex(sealed), "{key:?}");
        assert_eq!(key.open(&mut frame).map(|opened| opened.to_vec()), Ok(plaintext.clone()), "{key:?}");
    }
}

/// The GCM specification (McGrew and Viega, 2005), test case 2, which has no additional data. (The examples of NIST
/// SP 800-38C have other nonce and tag sizes than SMB.)
#[test]
fn gcm_test_case_2() {
    let SealingKey(Schedule::Gcm(key)) = SealingKey::new(CipherId::AES_128_GCM, &[0; 16]).expect("a key of 16 bytes")
    else {
        panic!("not a GCM key")
    };
    let mut block = [0; 16];
    let tag = key.seal_in_place_separate_tag(gcm_nonce([0; 16]), aead::Aad::empty(), &mut block).expect("one block");
    assert_eq!(block[..], hex("0388dace60b6a392f328c2b971b2fe78"));
    assert_eq!(tag.as_ref(), hex("ab6e47d42cec13bdf53a67b21257bddf"));
}

#[test]
fn frames_that_are_refused() {
    let key = SealingKey::new(CipherId::AES_128_GCM, &[7; 16]).expect("a key of 16 bytes");
    let sealed = |length: usize| {
        let mut frame = vec![1; TRANSFORM_HEADER + length];
        key.seal(5, 9, &mut frame);
        frame
    };
    let open = |mut frame: Vec<u8>| key.open(&mut frame).map(|opened| opened.len());
    assert_eq!(open(sealed(1)), Ok(1));
    assert_eq!(open(sealed(0)), Err(NotOpened::Structure));
    assert_eq!(open(vec![0; 51]), Err(NotOpened::Structure));
    for (at, why) in [
        (0, NotOpened::Structure),
        (4, NotOpened::Signature),
        (20, NotOpened::Signature),
        (36, NotOpened::Size),
        (40, NotOpened::Signature),
        (42, NotOpened::Flags),
        (44, NotOpened::Signature),
        (52, NotOpened::Signature),
    ] {
        let mut frame = sealed(100);
        frame[at] ^= 0x80;
        assert_eq!(open(frame), Err(why), "byte {at}");
    }
    let mut longer = sealed(100);
    longer.push(0);
    assert_eq!(open(longer), Err(NotOpened::Size));
}

#[test]
fn keys_that_do_not_fit() {
    for (cipher, fits) in [(1, 16), (2, 16), (3, 32), (4, 32)] {
        for length in [0, 15, 16, 24, 32] {
            let refused = SealingKey::new(CipherId(cipher), &vec![0; length]).err();
            assert_eq!(refused, (length != fits).then_some(KeyRefused::Length), "cipher {cipher}, {length} bytes");
        }
        assert!(key_length(CipherId(cipher)).is_some());
    }
    assert_eq!(SealingKey::new(CipherId(5), &[0; 16]).err(), Some(KeyRefused::Algorithm));
    assert_eq!(key_length(CipherId(0)), None);
}
