//! The preauthentication integrity hash of dialect 3.1.1 ([MS-SMB2] 3.3.5.4 and 3.3.5.5). It binds the keys to the
//! messages exchanged before there was a key.
//!
//! SHA-512 is the only algorithm that the specification defines (2.2.3.1.1), so it is not a parameter. The caller
//! selects the messages: every NEGOTIATE and SESSION_SETUP except the last SESSION_SETUP response.

use aws_lc_rs::digest;

/// `Connection.PreauthIntegrityHashValue` and the values that sessions derive from it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreauthHash([u8; 64]);

impl PreauthHash {
    /// The value before the first message: zeros.
    pub fn new() -> Self {
        PreauthHash([0; 64])
    }

    /// Hashes one whole message, from its SMB2 header on, as it was on the wire.
    pub fn update(&mut self, message: &[u8]) {
        let mut context = digest::Context::new(&digest::SHA512);
        context.update(&self.0);
        context.update(message);
        self.0.copy_from_slice(context.finish().as_ref());
    }

    /// The current value.
    pub fn value(&self) -> &[u8; 64] {
        &self.0
    }
}

impl Default for PreauthHash {
    fn default() -> Self {
        PreauthHash::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::hex;

    /// Microsoft Open Specifications blog, "SMB 2 and SMB 3 security in Windows 10: the anatomy of signing and
    /// cryptographic keys" (2017), appendix, 3.1.1 multichannel, first channel: NEGOTIATE request, two SESSION_SETUP
    /// requests and the response between them. The article gives only the hash of the NEGOTIATE response.
    #[test]
    fn the_exchange_of_the_anatomy_article() {
        let mut hash = PreauthHash::new();
        hash.update(&hex("
            FE534D4240000100000000000000800000000000000000000100000000000000FFFE000000000000
            00000000000000000000000000000000000000000000000024000500000000003F000000ECD86F32
            6276024F9F7752B89BB33F3A70000000020000000202100200030203110300000100260000000000
            010020000100FA49E6578F1F3A9F4CD3E9CC14A67AA884B3D05844E0E5A118225C15887F32FF0000
            0200060000000000020002000100"));
        assert_eq!(
            hash.value()[..],
            hex("DD94EFC5321BB618A2E208BA8920D2F422992526947A409B5037DE1E0FE8C7362B8C47122594CDE0
                 CE26AA9DFC8BCDBDE0621957672623351A7540F1E54A0426")
        );
        hash.0.copy_from_slice(&hex("
            324BFA92A4F3A190E466EBEA08D9C110DC88BFED758D9846ECC6F541CC1D02AE3C94A79F36011E99
            7E13F841B91B50957AD07B19C8E2539C0B23FDAE09D2C513"));
        hash.update(&hex("
            FE534D4240000100000000000100800000000000000000000200000000000000FFFE000000000000
            00000000000000000000000000000000000000000000000019000001010000000000000058004A00
            0000000000000000604806062B0601050502A03E303CA00E300C060A2B06010401823702020AA22A
            04284E544C4D5353500001000000978208E200000000000000000000000000000000060380250000
            000F"));
        assert_eq!(
            hash.value()[..],
            hex("AC0B0F2B9986257700365E416D142A6EDC96DF03594A19E52A15F6BD0D041CD5D432F8ED42C55E33
                 197A50C9EC00F1462B50C592211B1471A04B56088FDFD5F9")
        );
        hash.update(&hex("
            FE534D4240000100160000C00100010001000000000000000200000000000000FFFE000000000000
            190000000010000000000000000000000000000000000000090000004800B300A181B03081ADA003
            0A0101A10C060A2B06010401823702020AA281970481944E544C4D53535000020000000C000C0038
            00000015828AE20D1D8BA31179D008000000000000000050005000440000000A0092270000000F53
            005500540033003100310002000C0053005500540033003100310001000C00530055005400330031
            00310004000C0053005500540033003100310003000C0053005500540033003100310007000800A1
            A1F5ADCBAED00100000000"));
        assert_eq!(
            hash.value()[..],
            hex("2729E3440DFDDD839E37193F6E8F20C20CEFB3469E453A70CD980EEC06B8835740A7376008563336
                 4C8989895ECE81BF102DEEB14D4B7D48AFA76901A7A38387")
        );
    }
}
