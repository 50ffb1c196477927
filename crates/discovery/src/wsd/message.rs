//! The SOAP messages of WS-Discovery and of the metadata exchange.

use std::net::IpAddr;

use crate::wsd::host::{Host, uuid_text};
use crate::wsd::xml::{self, Element, Namespace, QName, XmlError, escape};

/// A datagram that is larger is not a request that Windows sends.
pub(crate) const MAX_DATAGRAM_SIZE: usize = 4 * 1024;
/// DPWS, appendix I "Constants": MAX_ENVELOPE_SIZE is one byte less.
pub(crate) const MAX_ENVELOPE_SIZE: usize = 32 * 1024;
/// DPWS, section 3.1 "URI".
pub(crate) const MAX_URI_SIZE: usize = 2048;

/// WS-Discovery, section 5.2 "Probe": the address of all Target Services.
pub(crate) const DISCOVERY_TO: &str = "urn:schemas-xmlsoap-org:ws:2005:04:discovery";
/// WS-Addressing, section 3 "Message Information Headers".
pub(crate) const ANONYMOUS: &str = "http://schemas.xmlsoap.org/ws/2004/08/addressing/role/anonymous";

/// The value of `wsa:Action`.
pub(crate) mod action {
    pub(crate) const HELLO: &str = "http://schemas.xmlsoap.org/ws/2005/04/discovery/Hello";
    pub(crate) const BYE: &str = "http://schemas.xmlsoap.org/ws/2005/04/discovery/Bye";
    pub(crate) const PROBE: &str = "http://schemas.xmlsoap.org/ws/2005/04/discovery/Probe";
    pub(crate) const PROBE_MATCHES: &str = "http://schemas.xmlsoap.org/ws/2005/04/discovery/ProbeMatches";
    pub(crate) const RESOLVE: &str = "http://schemas.xmlsoap.org/ws/2005/04/discovery/Resolve";
    pub(crate) const RESOLVE_MATCHES: &str = "http://schemas.xmlsoap.org/ws/2005/04/discovery/ResolveMatches";
    pub(crate) const GET: &str = "http://schemas.xmlsoap.org/ws/2004/09/transfer/Get";
    pub(crate) const GET_RESPONSE: &str = "http://schemas.xmlsoap.org/ws/2004/09/transfer/GetResponse";
    pub(crate) const FAULT: &str = "http://schemas.xmlsoap.org/ws/2004/08/addressing/fault";
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageError {
    Xml(XmlError),
    /// The root is not a SOAP 1.2 envelope, or the envelope is not as SOAP says.
    NotSoap,
    /// A header occurs twice or is too long.
    Header,
    /// The body is not what the action says.
    Body,
}

impl From<XmlError> for MessageError {
    fn from(error: XmlError) -> Self {
        Self::Xml(error)
    }
}

/// WS-Discovery, section 7 "Application Sequencing".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AppSequence {
    pub(crate) instance_id: u32,
    pub(crate) sequence_id: Option<String>,
    pub(crate) message_number: u32,
}

/// WS-Addressing, section 3 "Message Information Headers".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) action: String,
    pub(crate) message_id: Option<String>,
    pub(crate) to: Option<String>,
    pub(crate) reply_to: Option<String>,
    pub(crate) relates_to: Option<String>,
    pub(crate) app_sequence: Option<AppSequence>,
    /// A header block that must be understood is unknown. SOAP 1.2 part 1, section 5.2.3.
    pub(crate) not_understood: bool,
}

impl Header {
    /// Whether a reply goes to the sender. WS-Addressing: without ReplyTo, it does.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.reply_to.as_deref().is_none_or(|address| address == ANONYMOUS)
    }
}

/// WS-Discovery, section 5.2 "Probe".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) types: Vec<QName>,
    /// Whether the Probe has a scope. The server is in none.
    pub(crate) has_scopes: bool,
}

/// A Target Service in a Hello, a Bye, a ProbeMatch or a ResolveMatch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) endpoint: String,
    pub(crate) types: Vec<QName>,
    pub(crate) xaddrs: Vec<String>,
    pub(crate) metadata_version: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Hello(Target),
    Bye(Target),
    Probe(Probe),
    ProbeMatches(Vec<Target>),
    /// The address of the endpoint reference that is looked for.
    Resolve(String),
    ResolveMatches(Vec<Target>),
    Get,
    /// The content of the body.
    GetResponse(Option<Element>),
    /// The local name of the subcode.
    Fault(Option<String>),
    /// The action is another one.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) header: Header,
    pub(crate) body: Body,
}

/// Parses an envelope of at most `max_size` bytes.
pub(crate) fn parse(bytes: &[u8], max_size: usize) -> Result<Message, MessageError> {
    let envelope = xml::parse(bytes, max_size)?;
    if !envelope.is(Namespace::Soap, "Envelope") {
        return Err(MessageError::NotSoap);
    }
    let (header, body) = match envelope.children.as_slice() {
        [header, body] if header.is(Namespace::Soap, "Header") && body.is(Namespace::Soap, "Body") => (header, body),
        _ => return Err(MessageError::NotSoap),
    };
    let header = parse_header(header)?;
    let content = body.children.first();
    let discovery = |name| content.filter(|it| it.is(Namespace::Discovery, name)).ok_or(MessageError::Body);
    let body = match header.action.as_str() {
        action::HELLO => Body::Hello(parse_target(discovery("Hello")?)?),
        action::BYE => Body::Bye(parse_target(discovery("Bye")?)?),
        action::PROBE => Body::Probe(parse_probe(discovery("Probe")?)),
        action::PROBE_MATCHES => Body::ProbeMatches(parse_matches(discovery("ProbeMatches")?, "ProbeMatch")?),
        action::RESOLVE => Body::Resolve(parse_endpoint(discovery("Resolve")?)?),
        action::RESOLVE_MATCHES => Body::ResolveMatches(parse_matches(discovery("ResolveMatches")?, "ResolveMatch")?),
        action::GET => Body::Get,
        action::GET_RESPONSE => Body::GetResponse(content.cloned()),
        action::FAULT => Body::Fault(content.and_then(parse_subcode)),
        _ => Body::Other,
    };
    Ok(Message { header, body })
}

fn parse_header(element: &Element) -> Result<Header, MessageError> {
    let mut header = Header::default();
    for block in &element.children {
        match (block.name.namespace, block.name.name.as_str()) {
            (Namespace::Addressing, "Action") if header.action.is_empty() => header.action = uri(block)?,
            (Namespace::Addressing, "MessageID") => set(&mut header.message_id, uri(block)?)?,
            (Namespace::Addressing, "To") => set(&mut header.to, uri(block)?)?,
            (Namespace::Addressing, "ReplyTo") => {
                let address = block.child(Namespace::Addressing, "Address").ok_or(MessageError::Header)?;
                set(&mut header.reply_to, uri(address)?)?;
            }
            // A message may have several, and a Target Service uses none of them.
            (Namespace::Addressing, "RelatesTo") => header.relates_to = Some(uri(block)?),
            (Namespace::Addressing, "From" | "FaultTo") => {}
            (Namespace::Addressing, "Action") => return Err(MessageError::Header),
            (Namespace::Discovery, "AppSequence") => set(&mut header.app_sequence, parse_sequence(block)?)?,
            _ => {
                let must = block.attribute(Namespace::Soap, "mustUnderstand");
                header.not_understood |= must.is_some_and(|value| matches!(value.trim(), "1" | "true"));
            }
        }
    }
    Ok(header)
}

fn set<T>(field: &mut Option<T>, value: T) -> Result<(), MessageError> {
    if field.replace(value).is_some() { Err(MessageError::Header) } else { Ok(()) }
}

fn uri(element: &Element) -> Result<String, MessageError> {
    match element.trimmed() {
        text if text.is_empty() || text.len() > MAX_URI_SIZE => Err(MessageError::Header),
        text => Ok(text.to_owned()),
    }
}

fn parse_sequence(element: &Element) -> Result<AppSequence, MessageError> {
    let number = |name| {
        let text = element.attribute(Namespace::Unqualified, name).ok_or(MessageError::Header)?;
        text.trim().parse::<u32>().map_err(|_| MessageError::Header)
    };
    Ok(AppSequence {
        instance_id: number("InstanceId")?,
        sequence_id: element.attribute(Namespace::Unqualified, "SequenceId").map(str::to_owned),
        message_number: number("MessageNumber")?,
    })
}

fn parse_probe(element: &Element) -> Probe {
    let types = element.child(Namespace::Discovery, "Types").map(|types| types.qnames.clone());
    let has_scopes = element.child(Namespace::Discovery, "Scopes").is_some_and(|scopes| !scopes.trimmed().is_empty());
    Probe { types: types.unwrap_or_default(), has_scopes }
}

fn parse_endpoint(element: &Element) -> Result<String, MessageError> {
    let reference = element.child(Namespace::Addressing, "EndpointReference").ok_or(MessageError::Body)?;
    let address = reference.child(Namespace::Addressing, "Address").ok_or(MessageError::Body)?;
    uri(address)
}

fn parse_target(element: &Element) -> Result<Target, MessageError> {
    let child = |name| element.child(Namespace::Discovery, name);
    let version = child("MetadataVersion").map(|it| it.trimmed().parse::<u32>().map_err(|_| MessageError::Body));
    let xaddrs = child("XAddrs").map(|it| it.text.split_ascii_whitespace().map(str::to_owned).collect());
    Ok(Target {
        endpoint: parse_endpoint(element)?,
        types: child("Types").map(|it| it.qnames.clone()).unwrap_or_default(),
        xaddrs: xaddrs.unwrap_or_default(),
        metadata_version: version.transpose()?,
    })
}

fn parse_matches(element: &Element, name: &str) -> Result<Vec<Target>, MessageError> {
    element.children.iter().filter(|it| it.is(Namespace::Discovery, name)).map(parse_target).collect()
}

fn parse_subcode(fault: &Element) -> Option<String> {
    let code = fault.child(Namespace::Soap, "Code")?;
    let value = code.child(Namespace::Soap, "Subcode")?.child(Namespace::Soap, "Value")?;
    value.trimmed().rsplit(':').next().map(str::to_owned)
}

/// The faults of a server that only answers Get and Probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// WS-Addressing, "Action Not Supported". DPWS, section 5 "Description": so is all of WS-Transfer except Get.
    ActionNotSupported,
    /// WS-Addressing, "Destination Unreachable".
    DestinationUnreachable,
    /// WS-Addressing, "Message Information Header Required".
    MessageInformationHeaderRequired,
    /// WS-Addressing, "Invalid Message Information Header". DPWS, section 3.5 "WS-Addressing": a reply goes back on
    /// the HTTP connection.
    InvalidMessageInformationHeader,
    /// SOAP 1.2 part 1, section 5.4.8.
    MustUnderstand,
}

impl Fault {
    /// The code, the subcode, and the reason for people.
    fn parts(self) -> (&'static str, Option<&'static str>, &'static str) {
        match self {
            Self::ActionNotSupported => ("Sender", Some("ActionNotSupported"), "This action is not supported."),
            Self::DestinationUnreachable => ("Sender", Some("DestinationUnreachable"), "This address is not here."),
            Self::MessageInformationHeaderRequired => {
                ("Sender", Some("MessageInformationHeaderRequired"), "A header is missing.")
            }
            Self::InvalidMessageInformationHeader => {
                ("Sender", Some("InvalidMessageInformationHeader"), "A header has a value that is not supported.")
            }
            Self::MustUnderstand => ("MustUnderstand", None, "A header is not understood."),
        }
    }
}

/// The values of the headers of an own message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addressing<'a> {
    /// Random bits for the MessageID.
    pub(crate) random: u128,
    /// The MessageID of the request.
    pub(crate) relates_to: Option<&'a str>,
    pub(crate) app_sequence: Option<&'a AppSequence>,
}

pub(crate) fn hello(addressing: Addressing, host: &Host, own: IpAddr) -> String {
    let body = format!("<wsd:Hello>{}</wsd:Hello>", target(host, own));
    envelope(DISCOVERY_TO, action::HELLO, addressing, &body)
}

/// WS-Discovery, section 4.2 "Bye": the endpoint is enough.
pub(crate) fn bye(addressing: Addressing, host: &Host) -> String {
    let body = format!("<wsd:Bye>{}</wsd:Bye>", endpoint_reference(host));
    envelope(DISCOVERY_TO, action::BYE, addressing, &body)
}

/// Without an address there is no match, which is an answer by HTTP only. DPWS, section 4 "Discovery".
pub(crate) fn probe_matches(addressing: Addressing, host: &Host, own: Option<IpAddr>) -> String {
    let matched = own.map(|own| format!("<wsd:ProbeMatch>{}</wsd:ProbeMatch>", target(host, own)));
    let body = format!("<wsd:ProbeMatches>{}</wsd:ProbeMatches>", matched.unwrap_or_default());
    envelope(ANONYMOUS, action::PROBE_MATCHES, addressing, &body)
}

pub(crate) fn resolve_matches(addressing: Addressing, host: &Host, own: IpAddr) -> String {
    let target = target(host, own);
    let body = format!("<wsd:ResolveMatches><wsd:ResolveMatch>{target}</wsd:ResolveMatch></wsd:ResolveMatches>");
    envelope(ANONYMOUS, action::RESOLVE_MATCHES, addressing, &body)
}

/// DPWS, section 5 "Description": the sections ThisDevice, ThisModel and Relationship.
///
/// Explorer shows the computer by `pub:Computer`, and by `pnpx:DeviceCategory` with the icon of a computer.
pub(crate) fn get_response(addressing: Addressing, host: &Host) -> String {
    let name = escape(host.name());
    let device = format!(
        "<wsdp:ThisDevice><wsdp:FriendlyName>{name}</wsdp:FriendlyName>\
         <wsdp:FirmwareVersion>1.0</wsdp:FirmwareVersion><wsdp:SerialNumber>1</wsdp:SerialNumber></wsdp:ThisDevice>"
    );
    let model = "<wsdp:ThisModel><wsdp:Manufacturer>Frevo</wsdp:Manufacturer><wsdp:ModelName>Frevo</wsdp:ModelName>\
                 <pnpx:DeviceCategory>Computers</pnpx:DeviceCategory></wsdp:ThisModel>";
    let relationship = format!(
        "<wsdp:Relationship Type=\"{}/host\"><wsdp:Host>{}<wsdp:Types>pub:Computer</wsdp:Types>\
         <wsdp:ServiceId>{}</wsdp:ServiceId><pub:Computer>{}</pub:Computer></wsdp:Host></wsdp:Relationship>",
        Namespace::Devprof.uri(),
        endpoint_reference(host),
        host.endpoint(),
        escape(&host.computer()),
    );
    let section = |name: &str, content: &str| {
        let dialect = Namespace::Devprof.uri();
        format!("<wsx:MetadataSection Dialect=\"{dialect}/{name}\">{content}</wsx:MetadataSection>")
    };
    let body = format!(
        "<wsx:Metadata>{}{}{}</wsx:Metadata>",
        section("ThisDevice", &device),
        section("ThisModel", model),
        section("Relationship", &relationship)
    );
    envelope(ANONYMOUS, action::GET_RESPONSE, addressing, &body)
}

/// SOAP 1.2 part 1, section 5.4 "SOAP Fault".
pub(crate) fn fault(addressing: Addressing, fault: Fault) -> String {
    let (code, subcode, reason) = fault.parts();
    let subcode = subcode.map(|name| format!("<soap:Subcode><soap:Value>wsa:{name}</soap:Value></soap:Subcode>"));
    let body = format!(
        "<soap:Fault><soap:Code><soap:Value>soap:{code}</soap:Value>{}</soap:Code>\
         <soap:Reason><soap:Text xml:lang=\"en\">{reason}</soap:Text></soap:Reason></soap:Fault>",
        subcode.unwrap_or_default()
    );
    envelope(ANONYMOUS, action::FAULT, addressing, &body)
}

fn endpoint_reference(host: &Host) -> String {
    format!("<wsa:EndpointReference><wsa:Address>{}</wsa:Address></wsa:EndpointReference>", host.endpoint())
}

fn target(host: &Host, own: IpAddr) -> String {
    format!(
        "{}<wsd:Types>wsdp:Device pub:Computer</wsd:Types><wsd:XAddrs>{}</wsd:XAddrs>\
         <wsd:MetadataVersion>{}</wsd:MetadataVersion>",
        endpoint_reference(host),
        host.xaddr(own),
        host.metadata_version()
    )
}

/// The types that [`target`] announces.
pub(crate) fn own_types() -> [QName; 2] {
    [QName::new(Namespace::Devprof, "Device"), QName::new(Namespace::Publication, "Computer")]
}

fn envelope(to: &str, action: &str, addressing: Addressing, body: &str) -> String {
    let used = [
        ("soap", Namespace::Soap),
        ("wsa", Namespace::Addressing),
        ("wsd", Namespace::Discovery),
        ("wsx", Namespace::Mex),
        ("wsdp", Namespace::Devprof),
        ("pub", Namespace::Publication),
        ("pnpx", Namespace::Pnpx),
    ];
    let sequence = addressing.app_sequence.map(|sequence| {
        let id = sequence.sequence_id.as_ref().map(|id| format!(" SequenceId=\"{}\"", escape(id)));
        format!(
            "<wsd:AppSequence InstanceId=\"{}\"{} MessageNumber=\"{}\"/>",
            sequence.instance_id,
            id.unwrap_or_default(),
            sequence.message_number
        )
    });
    let relates_to = addressing.relates_to.map(|id| format!("<wsa:RelatesTo>{}</wsa:RelatesTo>", escape(id)));
    let content = format!(
        "<soap:Header><wsa:To>{to}</wsa:To><wsa:Action>{action}</wsa:Action>\
         <wsa:MessageID>urn:uuid:{}</wsa:MessageID>{}{}</soap:Header><soap:Body>{body}</soap:Body></soap:Envelope>",
        message_uuid(addressing.random),
        relates_to.unwrap_or_default(),
        sequence.unwrap_or_default()
    );
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?><soap:Envelope");
    for (prefix, namespace) in used {
        // An unused declaration would only make the datagram larger.
        if prefix == "soap" || content.contains(&format!("{prefix}:")) {
            text.push_str(&format!(" xmlns:{prefix}=\"{}\"", namespace.uri()));
        }
    }
    text.push('>');
    text.push_str(&content);
    text
}

/// RFC 9562, section 5.4 "UUID Version 4".
fn message_uuid(random: u128) -> String {
    let mut bytes = random.to_be_bytes();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    uuid_text(bytes)
}
