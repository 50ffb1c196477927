//! Kerberos logon: tokens of the GSS-API mechanism in SPNEGO ([MS-SMB2] 3.2.4.2.3, RFC 4178, RFC 4121).
//!
//! The user is the default principal of the host's ticket cache. The host's `krb5.conf` determines how a host name
//! becomes a principal. Not implemented: obtaining tickets with a password, delegation, user-to-user, fallback to NTLM.

use std::{io, mem};

use gssapi::{Failure, Initiator, Library};
use proto::auth::spnego::{MechType, NegState, NegTokenResp, Token, encode_init, encode_mech_types};

use crate::{Error, Result};

/// The offered mechanisms: Kerberos under both of its names, the one that Windows looks for first.
const OFFERED: [MechType<'static>; 2] = [MechType::MS_KERBEROS, MechType::KERBEROS];

/// A Kerberos logon with the host's ticket cache, in progress or finished.
///
/// All methods block, because a ticket that is not in the cache is requested from the KDC. Asynchronous code calls them
/// in `spawn_blocking`.
pub struct Kerberos {
    initiator: Initiator,
    host: String,
    /// The mechanism list as it was sent, which both sides may sign.
    offered: Vec<u8>,
    /// The mechanism's first token, until the server has accepted it.
    first: Vec<u8>,
}

impl Kerberos {
    /// Begins a logon to the service `cifs` on `host`. The returned token is the security buffer of the first
    /// SESSION_SETUP.
    ///
    /// Fails if the host has no Kerberos library or no ticket, or if no ticket for that server can be obtained. The
    /// error text identifies the cause.
    pub fn initiate(host: &str) -> Result<(Kerberos, Vec<u8>)> {
        let library = Library::get().map_err(|missing| {
            io::Error::new(io::ErrorKind::NotFound, format!("Kerberos is not available on this host: {missing}"))
        })?;
        let service = format!("cifs@{host}");
        let mut initiator = Initiator::new(library, &service)
            .map_err(|failure| failed(&format!("cannot make a Kerberos name for {service}"), failure))?;
        let token = initiator.step(&[]).map_err(|failure| no_logon(host, failure))?;
        let offered = encode_mech_types(&OFFERED);
        let message = encode_init(&offered, Some(&token));
        Ok((Kerberos { initiator, host: host.to_owned(), offered, first: token }, message))
    }

    /// Processes the security buffer of a SESSION_SETUP response, including the last one (`STATUS_SUCCESS`). Returns
    /// the token to reply with, or `None` when both sides are done.
    pub fn step(&mut self, token: &[u8]) -> Result<Option<Vec<u8>>> {
        let response = answer(token)?;
        let next = match response.response_token {
            Some(token) if !self.initiator.is_established() => {
                self.first.clear();
                self.initiator.step(token).map_err(|failure| no_logon(&self.host, failure))?
            }
            Some(_) => Vec::new(),
            // A server that supports Kerberos only under its other name did not look at the token for the first one.
            None => mem::take(&mut self.first),
        };
        let established = self.initiator.is_established();
        match response.mech_list_mic {
            Some(_) if !established => {
                return Err(Error::Protocol("it sent a signature before the Kerberos logon was complete"));
            }
            Some(mic) => {
                let verified = self.initiator.context_mut().verify_mic(&self.offered, mic);
                verified.map_err(|failure| failed("a signature of the server is invalid", failure))?;
            }
            None => {}
        }
        match response.neg_state {
            Some(NegState::ACCEPT_COMPLETED) if !established => {
                Err(Error::Protocol("it accepted the Kerberos logon but did not authenticate itself"))
            }
            Some(NegState::ACCEPT_INCOMPLETE | NegState::REQUEST_MIC) if established => {
                let mic = self.initiator.context_mut().mic(&self.offered);
                let mic = mic.map_err(|failure| failed("cannot sign with the key of the Kerberos logon", failure))?;
                let response_token = (!next.is_empty()).then_some(&next[..]);
                let mech_list_mic = Some(&mic[..]);
                Ok(Some(NegTokenResp { response_token, mech_list_mic, ..NegTokenResp::default() }.encode()))
            }
            _ if !next.is_empty() => {
                Ok(Some(NegTokenResp { response_token: Some(&next), ..NegTokenResp::default() }.encode()))
            }
            _ if established => Ok(None),
            _ => Err(Error::Protocol("it did not answer the Kerberos logon")),
        }
    }

    /// The full session key, 16 or 32 bytes: `Session.FullSessionKey`, whose first 16 bytes are `Session.SessionKey`
    /// ([MS-SMB2] 3.2.5.3.1). Returns an error before the server has authenticated itself.
    pub fn session_key(&self) -> Result<Vec<u8>> {
        if !self.initiator.is_established() {
            return Err(Error::Protocol("it accepted the logon without authenticating itself"));
        }
        let key = self.initiator.context().session_key();
        key.map(|(key, _)| key.to_vec()).map_err(|failure| failed("the Kerberos logon has no session key", failure))
    }
}

/// Builds an error from the failed action, the library's text, and the remedy if the user has one.
fn failed(what: &str, failure: Failure) -> Error {
    let remedy = if failure.wants_ticket() { "; get a ticket with kinit" } else { "" };
    io::Error::other(format!("{what}: {}{remedy}", failure.text)).into()
}

fn no_logon(host: &str, failure: Failure) -> Error {
    failed(&format!("cannot log on to cifs@{host} with Kerberos"), failure)
}

/// Decodes the server's token, which must select Kerberos.
fn answer(token: &[u8]) -> Result<NegTokenResp<'_>> {
    let Ok(Token::Resp(mut response)) = Token::decode(token) else {
        return Err(Error::Protocol("its logon token cannot be decoded"));
    };
    if response.neg_state == Some(NegState::REJECT) {
        return Err(Error::Protocol("it does not accept Kerberos"));
    }
    if response.supported_mech.is_some_and(|chosen| !OFFERED.contains(&chosen)) {
        return Err(Error::Protocol("it chose a mechanism that was not offered"));
    }
    // Windows 2000 repeated the mechanism's token in the signature field.
    if response.mech_list_mic == response.response_token {
        response.mech_list_mic = None;
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_of_servers() {
        let check = |response: NegTokenResp<'_>, expected: &str| {
            let encoded = response.encode();
            let said = match answer(&encoded) {
                Ok(response) => format!("{:?} {:?}", response.response_token, response.mech_list_mic),
                Err(error) => error.to_string(),
            };
            assert!(said.contains(expected), "{response:?}: {said}");
        };
        let plain = NegTokenResp { response_token: Some(&[7]), ..NegTokenResp::default() };
        for chosen in [None, Some(MechType::KERBEROS), Some(MechType::MS_KERBEROS)] {
            check(NegTokenResp { supported_mech: chosen, ..plain }, "Some([7]) None");
        }
        check(NegTokenResp { supported_mech: Some(MechType::NTLMSSP), ..plain }, "not offered");
        check(NegTokenResp { neg_state: Some(NegState::REJECT), ..plain }, "does not accept Kerberos");
        check(NegTokenResp { mech_list_mic: Some(&[8]), ..plain }, "Some([7]) Some([8])");
        check(NegTokenResp { mech_list_mic: Some(&[7]), ..plain }, "Some([7]) None");
        for wrong in [&[][..], &[0xA1, 2, 0x30], b"NTLMSSP\0\x02\0\0\0", &encode_init(&[0x30, 0], None)] {
            let said = answer(wrong).expect_err("no answer").to_string();
            assert!(said.contains("cannot be decoded"), "{wrong:?}: {said}");
        }
    }

    /// The library reads the environment, so the test runs itself again in a process whose environment has no ticket.
    #[test]
    fn without_a_ticket_the_error_names_the_cache() {
        const CACHE: &str = "FILE:/nonexistent/tickets";
        if std::env::var("KRB5CCNAME").is_ok_and(|cache| cache == CACHE) {
            let said = Kerberos::initiate("localhost").err().expect("no ticket").to_string();
            let library_is_missing = said.contains("libgssapi-krb5-2");
            assert!(
                library_is_missing || said.contains("cifs@localhost") && said.contains(CACHE) && said.contains("kinit"),
                "{said}"
            );
            return;
        }
        let name = "kerberos::tests::without_a_ticket_the_error_names_the_cache";
        let out = std::process::Command::new(std::env::current_exe().expect("the path of the test program is known"))
            .args([name, "--exact"])
            .envs([("KRB5CCNAME", CACHE), ("KRB5_CLIENT_KTNAME", CACHE), ("KRB5_CONFIG", "/dev/null")])
            .output()
            .expect("the test program can be started again");
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success() && said.contains("1 passed"), "{said}");
    }
}
