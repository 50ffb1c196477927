//! The computer that is announced.

use std::net::IpAddr;

use crate::wsd::HTTP_PORT;

/// DPWS, appendix I "Constants": the longest text of a field of the metadata.
const MAX_FIELD_SIZE: usize = 255;

/// What the computer is a member of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// A workgroup.
    Workgroup(String),
    /// A domain, by its NetBIOS name.
    Domain(String),
}

impl Group {
    fn name(&self) -> &str {
        match self {
            Self::Workgroup(name) | Self::Domain(name) => name,
        }
    }
}

/// Why a name cannot be announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostError {
    /// It is empty.
    EmptyName,
    /// It has more than 255 bytes.
    NameTooLong,
    /// A control character, or a character that separates the parts of `pub:Computer`.
    IllegalCharacter,
}

/// The computer that is announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    name: String,
    group: Group,
    uuid: [u8; 16],
    metadata_version: u32,
}

impl Host {
    /// Creates the host. The `uuid` must be the same after a restart, because Windows identifies the device by it.
    ///
    /// # Errors
    ///
    /// A name is empty, has more than 255 bytes, or has a character that the metadata cannot contain.
    pub fn new(name: String, group: Group, uuid: [u8; 16]) -> Result<Self, HostError> {
        for text in [&name, group.name()] {
            if text.is_empty() {
                return Err(HostError::EmptyName);
            }
            if text.len() > MAX_FIELD_SIZE {
                return Err(HostError::NameTooLong);
            }
            if text.chars().any(|it| it.is_control() || matches!(it, '/' | '\\' | ':' | '\u{fffe}' | '\u{ffff}')) {
                return Err(HostError::IllegalCharacter);
            }
        }
        Ok(Self { name, group, uuid, metadata_version: 0 })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Sets the version of the metadata. It must increase when a name changes, because Windows otherwise keeps what it
    /// knows.
    pub(crate) fn with_metadata_version(self, metadata_version: u32) -> Self {
        Self { metadata_version, ..self }
    }

    pub(crate) fn metadata_version(&self) -> u32 {
        self.metadata_version
    }

    /// The UUID as in the path of the HTTP address.
    pub(crate) fn uuid(&self) -> String {
        uuid_text(self.uuid)
    }

    /// The address of the endpoint reference. It is not a network address. DPWS, section 3.5 "WS-Addressing".
    pub(crate) fn endpoint(&self) -> String {
        format!("urn:uuid:{}", self.uuid())
    }

    /// The content of `pub:Computer`. MS-PBSD, section 2.2 "Computer Information".
    pub(crate) fn computer(&self) -> String {
        match &self.group {
            Group::Workgroup(group) => format!("{}/Workgroup:{group}", self.name),
            Group::Domain(group) => format!("{}/Domain:{group}", self.name),
        }
    }

    /// Returns the transport address of the metadata. Windows adds the zone of a link-local address itself.
    pub(crate) fn xaddr(&self, own: IpAddr) -> String {
        match own.to_canonical() {
            IpAddr::V4(address) => format!("http://{address}:{HTTP_PORT}/{}", self.uuid()),
            IpAddr::V6(address) => format!("http://[{address}]:{HTTP_PORT}/{}", self.uuid()),
        }
    }
}

/// RFC 9562, section 4 "UUID Format".
pub(crate) fn uuid_text(uuid: [u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in uuid.into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}
