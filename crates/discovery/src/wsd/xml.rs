//! A bounded parser of XML with namespaces.
//!
//! SOAP 1.2 part 1, section 5 "SOAP Message Construct", forbids DTDs and processing instructions. Both are errors here,
//! so that no entity is ever expanded except the five predefined ones.

use quick_xml::NsReader;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::name::{NamespaceResolver, QName as PrefixedName, ResolveResult};

pub(crate) const MAX_DEPTH: usize = 32;
pub(crate) const MAX_ELEMENTS: usize = 1024;
/// quick-xml compares each attribute with all before it, so that their number must be small.
pub(crate) const MAX_ATTRIBUTES: usize = 32;
pub(crate) const MAX_BINDINGS: usize = 64;
pub(crate) const MAX_QNAMES: usize = 64;

/// The namespaces of the messages. A namespace that no message has meaning for is `Other`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Namespace {
    /// SOAP 1.2.
    Soap,
    /// WS-Addressing of August 2004.
    Addressing,
    /// WS-Discovery of April 2005.
    Discovery,
    /// WS-MetadataExchange of September 2004.
    Mex,
    /// DPWS of February 2006.
    Devprof,
    /// MS-PBSD, Publication Services.
    Publication,
    /// PnP-X.
    Pnpx,
    /// No namespace.
    Unqualified,
    Other,
}

impl Namespace {
    const KNOWN: [Self; 7] =
        [Self::Soap, Self::Addressing, Self::Discovery, Self::Mex, Self::Devprof, Self::Publication, Self::Pnpx];

    pub(crate) const fn uri(self) -> &'static str {
        match self {
            Self::Soap => "http://www.w3.org/2003/05/soap-envelope",
            Self::Addressing => "http://schemas.xmlsoap.org/ws/2004/08/addressing",
            Self::Discovery => "http://schemas.xmlsoap.org/ws/2005/04/discovery",
            Self::Mex => "http://schemas.xmlsoap.org/ws/2004/09/mex",
            Self::Devprof => "http://schemas.xmlsoap.org/ws/2006/02/devprof",
            Self::Publication => "http://schemas.microsoft.com/windows/pub/2005/07",
            Self::Pnpx => "http://schemas.microsoft.com/windows/pnpx/2005/10",
            Self::Unqualified | Self::Other => "",
        }
    }

    fn from_uri(uri: &str) -> Self {
        if uri.is_empty() {
            return Self::Unqualified;
        }
        Self::KNOWN.into_iter().find(|known| known.uri() == uri).unwrap_or(Self::Other)
    }
}

/// A name with its namespace instead of a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QName {
    pub(crate) namespace: Namespace,
    pub(crate) name: String,
}

impl QName {
    pub(crate) fn new(namespace: Namespace, name: &str) -> Self {
        Self { namespace, name: name.to_owned() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attribute {
    pub(crate) name: QName,
    pub(crate) value: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: QName,
    pub(crate) attributes: Vec<Attribute>,
    /// The text between the children, joined.
    pub(crate) text: String,
    /// The text as a list of QNames, if the element is named `Types`. Prefixes have no meaning outside the element.
    pub(crate) qnames: Vec<QName>,
    pub(crate) children: Vec<Element>,
}

impl Element {
    pub(crate) fn is(&self, namespace: Namespace, name: &str) -> bool {
        self.name.namespace == namespace && self.name.name == name
    }

    /// The first child with this name.
    pub(crate) fn child(&self, namespace: Namespace, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.is(namespace, name))
    }

    pub(crate) fn attribute(&self, namespace: Namespace, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|it| it.name.namespace == namespace && it.name.name == name)?;
        Some(&found.value)
    }

    /// The text without the white space around it, with which WSDAPI formats some messages.
    pub(crate) fn trimmed(&self) -> &str {
        self.text.trim_matches(is_space)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum XmlError {
    TooLarge,
    NotUtf8,
    TooDeep,
    /// Too many elements, attributes, namespaces or QNames.
    TooMany,
    /// A DTD, a processing instruction or an entity.
    Forbidden,
    Malformed,
}

/// Parses a document of at most `max_size` bytes.
pub(crate) fn parse(bytes: &[u8], max_size: usize) -> Result<Element, XmlError> {
    if bytes.len() > max_size {
        return Err(XmlError::TooLarge);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| XmlError::NotUtf8)?;
    let mut reader = NsReader::from_str(text.strip_prefix('\u{feff}').unwrap_or(text));
    reader.config_mut().expand_empty_elements = true;
    reader.resolver_mut().set_max_namespace_bindings(MAX_BINDINGS);
    let mut open: Vec<Element> = Vec::new();
    let mut root = None;
    let mut elements = 0;
    loop {
        match reader.read_event().map_err(|_| XmlError::Malformed)? {
            Event::Start(start) => {
                elements += 1;
                if open.len() >= MAX_DEPTH {
                    return Err(XmlError::TooDeep);
                }
                if elements > MAX_ELEMENTS {
                    return Err(XmlError::TooMany);
                }
                if root.is_some() {
                    return Err(XmlError::Malformed);
                }
                open.push(element(&start, reader.resolver())?);
            }
            Event::End(_) => {
                let mut closed = open.pop().ok_or(XmlError::Malformed)?;
                if closed.name.name == "Types" {
                    // The bindings of this element are in scope until the next event is read.
                    closed.qnames = qnames(&closed.text, reader.resolver())?;
                }
                match open.last_mut() {
                    Some(parent) => parent.children.push(closed),
                    None => root = Some(closed),
                }
            }
            Event::Text(text) => append(&mut open, &text.xml10_content())?,
            Event::CData(text) => append(&mut open, &text.xml10_content())?,
            Event::GeneralRef(reference) => {
                let character = resolve(&reference)?;
                append(&mut open, character.encode_utf8(&mut [0; 4]))?;
            }
            Event::Decl(declaration) => {
                if let Some(encoding) = declaration.encoding()
                    && !encoding.is_ok_and(|name| name.eq_ignore_ascii_case("utf-8"))
                {
                    return Err(XmlError::NotUtf8);
                }
            }
            Event::Comment(_) => {}
            Event::DocType(_) | Event::PI(_) => return Err(XmlError::Forbidden),
            Event::Empty(_) => return Err(XmlError::Malformed),
            Event::Eof => break,
        }
    }
    if !open.is_empty() {
        return Err(XmlError::Malformed);
    }
    root.ok_or(XmlError::Malformed)
}

/// Escapes text for use in an element or in an attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            // A parser would make a line feed of it.
            '\r' => escaped.push_str("&#13;"),
            legal if is_legal(legal) => escaped.push(legal),
            _ => escaped.push('\u{fffd}'),
        }
    }
    escaped
}

fn element(start: &BytesStart, resolver: &NamespaceResolver) -> Result<Element, XmlError> {
    let name = resolve_name(resolver.resolve_element(start.name()))?;
    let mut attributes = Vec::new();
    for (count, attribute) in start.attributes().enumerate() {
        if count >= MAX_ATTRIBUTES {
            return Err(XmlError::TooMany);
        }
        let attribute = attribute.map_err(|_| XmlError::Malformed)?;
        if attribute.key.as_namespace_binding().is_some() {
            continue;
        }
        let name = resolve_name(resolver.resolve_attribute(attribute.key))?;
        let value = attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0).map_err(|_| XmlError::Forbidden)?;
        attributes.push(Attribute { name, value: value.into_owned() });
    }
    Ok(Element { name, attributes, text: String::new(), qnames: Vec::new(), children: Vec::new() })
}

fn resolve_name((namespace, local): (ResolveResult, quick_xml::name::LocalName)) -> Result<QName, XmlError> {
    let namespace = match namespace {
        ResolveResult::Bound(namespace) => Namespace::from_uri(namespace.into_inner()),
        ResolveResult::Unbound => Namespace::Unqualified,
        ResolveResult::Unknown(_) => return Err(XmlError::Malformed),
    };
    Ok(QName::new(namespace, local.into_inner()))
}

fn qnames(text: &str, resolver: &NamespaceResolver) -> Result<Vec<QName>, XmlError> {
    let mut names = Vec::new();
    for token in text.split(is_space).filter(|token| !token.is_empty()) {
        if names.len() >= MAX_QNAMES {
            return Err(XmlError::TooMany);
        }
        names.push(resolve_name(resolver.resolve_element(PrefixedName(token)))?);
    }
    Ok(names)
}

fn append(open: &mut [Element], text: &str) -> Result<(), XmlError> {
    if !text.chars().all(is_legal) {
        return Err(XmlError::Malformed);
    }
    match open.last_mut() {
        Some(element) => element.text.push_str(text),
        None if text.chars().all(is_space) => {}
        None => return Err(XmlError::Malformed),
    }
    Ok(())
}

fn resolve(reference: &BytesRef) -> Result<char, XmlError> {
    if let Some(character) = reference.resolve_char_ref().map_err(|_| XmlError::Malformed)? {
        return if is_legal(character) { Ok(character) } else { Err(XmlError::Malformed) };
    }
    match &*reference.xml10_content() {
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "amp" => Ok('&'),
        "apos" => Ok('\''),
        "quot" => Ok('"'),
        _ => Err(XmlError::Forbidden),
    }
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

/// XML 1.0, section 2.2 "Characters".
fn is_legal(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_and_depth_are_bounded() {
        let parse = |text: &str| parse(text.as_bytes(), 32 * 1024);
        assert_eq!(parse("<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>"), Err(XmlError::Forbidden));
        assert_eq!(parse("<a>&e;</a>"), Err(XmlError::Forbidden));
        assert_eq!(parse("<a b='&e;'/>"), Err(XmlError::Forbidden));
        assert_eq!(parse("<?pi x?><a/>"), Err(XmlError::Forbidden));
        assert_eq!(parse("<a>&#0;</a>"), Err(XmlError::Malformed));
        assert_eq!(parse("<a>&#1;</a>"), Err(XmlError::Malformed));
        assert_eq!(parse("<p:a/>"), Err(XmlError::Malformed));
        assert_eq!(parse("<a></b>"), Err(XmlError::Malformed));
        assert_eq!(parse("<a><b></a>"), Err(XmlError::Malformed));
        assert_eq!(parse("<a>"), Err(XmlError::Malformed));
        assert_eq!(parse("<a/><a/>"), Err(XmlError::Malformed));
        assert_eq!(parse("<a/>x"), Err(XmlError::Malformed));
        assert_eq!(parse(""), Err(XmlError::Malformed));
        assert_eq!(parse("<?xml version='1.0' encoding='utf-16'?><a/>"), Err(XmlError::NotUtf8));
        let nested = |depth: usize| parse(&format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth)));
        assert!(nested(MAX_DEPTH).is_ok());
        assert_eq!(nested(MAX_DEPTH + 1), Err(XmlError::TooDeep));
        assert_eq!(parse(&format!("<a>{}</a>", "<b/>".repeat(MAX_ELEMENTS))), Err(XmlError::TooMany));
        assert_eq!(parse(&format!("<a>{}</a>", " ".repeat(32 * 1024))), Err(XmlError::TooLarge));
        let attributes: String = (0..=MAX_ATTRIBUTES).map(|number| format!(" a{number}=''")).collect();
        assert_eq!(parse(&format!("<a{attributes}/>")), Err(XmlError::TooMany));
        let bindings: String = (0..=MAX_BINDINGS).map(|number| format!(" xmlns:a{number}='u:x'")).collect();
        assert!(parse(&format!("<a{bindings}/>")).is_err());
    }

    #[test]
    fn text_is_joined_and_unescaped() {
        let root = parse("\u{feff}<a b='&lt;'> x&amp;<!-- c --><![CDATA[<y>]]>&#x41; </a>".as_bytes(), 100).unwrap();
        assert_eq!(root.trimmed(), "x&<y>A");
        assert_eq!(root.attribute(Namespace::Unqualified, "b"), Some("<"));
    }

    #[test]
    fn types_are_resolved_where_they_are() {
        let text = "<d:Types xmlns:d='http://schemas.xmlsoap.org/ws/2005/04/discovery' \
                    xmlns:x='http://schemas.xmlsoap.org/ws/2006/02/devprof' xmlns='u:other'>\n x:Device\ty </d:Types>";
        let root = parse(text.as_bytes(), 1000).unwrap();
        assert_eq!(root.qnames, [QName::new(Namespace::Devprof, "Device"), QName::new(Namespace::Other, "y")]);
    }
}
