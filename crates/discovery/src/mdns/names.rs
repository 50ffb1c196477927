//! The names and records of a host and its services ([RFC 6762], [RFC 6763]).

use std::net::IpAddr;

use simple_dns::rdata::{A, AAAA, NSEC, NsecTypeBitMap, PTR, RData, SRV, TXT};
use simple_dns::{CLASS, CharacterString, Label, Name, ResourceRecord, TYPE};

/// TTL in seconds of records that depend on the host's name or address, and of others ([RFC 6762] 10).
const HOST_TTL: u32 = 120;
const OTHER_TTL: u32 = 4500;
/// The longest label in bytes.
const LONGEST_LABEL: usize = 63;

/// A host and its services.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// The first label of the host's name.
    pub name: String,
    /// The name of its service instances, which users see.
    pub instance: String,
    /// Its services.
    pub services: Vec<Service>,
}

/// A service of a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Service {
    /// Its type, such as `_smb._tcp`.
    pub kind: String,
    /// Its port; some services only have text and use port 0 or 9.
    pub port: u16,
    /// The strings of its TXT record.
    pub text: Vec<String>,
}

/// A record with its properties.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub(crate) record: ResourceRecord<'static>,
    /// Only this host may have records of this name and type.
    pub(crate) unique: bool,
}

/// The names of a host, which are changed if another host has them.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    host: Host,
    host_number: u32,
    instance_number: u32,
}

impl Names {
    pub(crate) fn new(host: Host) -> Names {
        Names { host, host_number: 1, instance_number: 1 }
    }

    /// Returns the name of the host.
    pub(crate) fn host_name(&self) -> Name<'static> {
        let suffix = if self.host_number > 1 { format!("-{}", self.host_number) } else { String::new() };
        name(&[&label(&self.host.name, &suffix), "local"])
    }

    /// Returns the label of the service instances.
    pub(crate) fn instance(&self) -> String {
        let suffix = if self.instance_number > 1 { format!(" ({})", self.instance_number) } else { String::new() };
        label(&self.host.instance, &suffix)
    }

    /// Chooses another name in place of one that another host has ([RFC 6762] 9).
    pub(crate) fn change(&mut self, taken: &Name<'_>) {
        if *taken == self.host_name() {
            self.host_number += 1;
        } else {
            self.instance_number += 1;
        }
    }

    /// Returns the names that must be unique.
    pub(crate) fn unique_names(&self) -> Vec<Name<'static>> {
        let instances = self.host.services.iter().map(|service| self.instance_name(service));
        std::iter::once(self.host_name()).chain(instances).collect()
    }

    fn instance_name(&self, service: &Service) -> Name<'static> {
        let instance = self.instance();
        let labels: Vec<&str> = std::iter::once(&*instance).chain(service.kind.split('.')).chain(["local"]).collect();
        name(&labels)
    }

    /// Returns all records of the host with these addresses.
    pub(crate) fn records(&self, addresses: &[IpAddr]) -> Vec<Own> {
        let host = self.host_name();
        let mut all = Vec::new();
        let mut add = |name: &Name<'static>, ttl, unique, data| {
            let record = ResourceRecord::new(name.clone(), CLASS::IN, ttl, data).with_cache_flush(unique);
            all.push(Own { record, unique });
        };
        for address in addresses {
            add(&host, HOST_TTL, true, address_data(*address));
            add(&reverse_name(*address), HOST_TTL, true, RData::PTR(PTR(host.clone())));
        }
        for service in &self.host.services {
            let (kind, instance) = (kind_name(service), self.instance_name(service));
            add(&kind, OTHER_TTL, false, RData::PTR(PTR(instance.clone())));
            // By which all types of services are listed ([RFC 6763] 9).
            add(&name(&["_services", "_dns-sd", "_udp", "local"]), OTHER_TTL, false, RData::PTR(PTR(kind)));
            let target = host.clone();
            add(&instance, HOST_TTL, true, RData::SRV(SRV { priority: 0, weight: 0, port: service.port, target }));
            add(&instance, OTHER_TTL, true, RData::TXT(text(&service.text)));
        }
        all
    }

    /// Returns the record that says which types of records one of the unique names has ([RFC 6762] 6.1).
    pub(crate) fn nsec(&self, of: &Name<'static>, own: &[Own]) -> ResourceRecord<'static> {
        let mut bitmap = Vec::new();
        for record in own.iter().filter(|own| own.record.name == *of) {
            let number = u16::from(record.record.rdata.type_code());
            let (byte, bit) = (usize::from(number / 8), 7 - number % 8);
            if bitmap.len() <= byte {
                bitmap.resize(byte + 1, 0_u8);
            }
            bitmap[byte] |= 1 << bit;
        }
        let maps = vec![NsecTypeBitMap { window_block: 0, bitmap: bitmap.into() }];
        let data = RData::NSEC(NSEC { next_name: of.clone(), type_bit_maps: maps });
        ResourceRecord::new(of.clone(), CLASS::IN, HOST_TTL, data).with_cache_flush(true)
    }
}

/// Returns the types of the data of a record, which the library returns as a value of another type.
pub(crate) fn type_of(record: &ResourceRecord<'_>) -> TYPE {
    record.rdata.type_code()
}

fn kind_name(service: &Service) -> Name<'static> {
    name(&service.kind.split('.').chain(["local"]).collect::<Vec<_>>())
}

/// Returns a name with these labels, which may contain dots.
pub(crate) fn name(labels: &[&str]) -> Name<'static> {
    let labels: Vec<Label<'static>> =
        labels.iter().map(|label| Label::new_unchecked(label.as_bytes().to_vec())).collect();
    Name::new_with_labels(&labels)
}

/// Returns a label, of which the beginning is shortened if it is too long.
fn label(text: &str, suffix: &str) -> String {
    let mut end = text.len().min(LONGEST_LABEL - suffix.len().min(LONGEST_LABEL));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &text[..end])
}

pub(crate) fn address_data(address: IpAddr) -> RData<'static> {
    match address {
        IpAddr::V4(address) => RData::A(A { address: address.into() }),
        IpAddr::V6(address) => RData::AAAA(AAAA { address: address.into() }),
    }
}

/// Returns the name by which the name of an address is found ([RFC 6762] 4).
pub(crate) fn reverse_name(address: IpAddr) -> Name<'static> {
    let (labels, kind): (Vec<String>, &str) = match address {
        IpAddr::V4(address) => (address.octets().iter().rev().map(u8::to_string).collect(), "in-addr"),
        IpAddr::V6(address) => {
            let nibbles = address.octets().into_iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
            (nibbles.map(|nibble| format!("{nibble:x}")).collect(), "ip6")
        }
    };
    name(&labels.iter().map(String::as_str).chain([kind, "arpa"]).collect::<Vec<_>>())
}

fn text(strings: &[String]) -> TXT<'static> {
    let mut text = TXT::new();
    for string in strings {
        // A string that is too long is omitted.
        if let Ok(string) = CharacterString::new(string.as_bytes()) {
            text.add_char_string(string.into_owned());
        }
    }
    if strings.is_empty() {
        // A record without strings would have no data ([RFC 6763] 6.1).
        text.add_char_string(CharacterString::new(b"").expect("an empty string is short"));
    }
    text
}
