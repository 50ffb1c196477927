//! The OEM character set, in which clients without Unicode write names ([MS-NLMP] 2.2.2.5). They do not identify the
//! code page; it is assumed to be 850, the default of Samba's `dos charset`.

/// The characters of the bytes from 0x80 on.
const UPPER_HALF: &str = "\
    ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜø£Ø×ƒáíóúñÑªº¿®¬½¼¡«»░▒▓│┤ÁÂÀ©╣║╗╝¢¥┐└┴┬├─┼ãÃ╚╔╩╦╠═╬¤\
    ðÐÊËÈıÍÎÏ┘┌█▄¦Ì▀ÓßÔÒõÕµþÞÚÛÙýÝ¯´\u{ad}±‗¾¶§÷¸°¨·¹³²■\u{a0}";

/// Decodes OEM bytes.
pub(super) fn decode(bytes: &[u8]) -> String {
    let letter = |&byte: &u8| match byte.checked_sub(0x80) {
        None => char::from(byte),
        Some(index) => UPPER_HALF.chars().nth(usize::from(index)).unwrap_or(char::REPLACEMENT_CHARACTER),
    };
    bytes.iter().map(letter).collect()
}

/// Encodes text as OEM bytes. A character without an encoding becomes a question mark.
pub(super) fn encode(text: &str) -> Vec<u8> {
    let byte = |letter: char| match u8::try_from(u32::from(letter)) {
        Ok(ascii) if ascii < 0x80 => ascii,
        _ => UPPER_HALF.chars().position(|other| other == letter).map_or(b'?', |index| (index + 0x80) as u8),
    };
    text.chars().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_character_and_round_trips() {
        let all: Vec<u8> = (0..=255).collect();
        let text = decode(&all);
        assert_eq!(text.chars().count(), 256);
        assert!(!text.contains(char::REPLACEMENT_CHARACTER));
        assert_eq!(encode(&text), all);
        assert_eq!(decode(b"J\x94rg"), "Jörg");
        assert_eq!(encode("日"), b"?");
    }
}
