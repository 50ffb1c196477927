//! The record of logons and of the ends of sessions (`log level = auth_audit:3`).

use proto::status::Status;

use crate::audit::{Became, Event, Logon, LogonEvent};
use crate::authentication::Attempt;
use crate::request::Request;
use crate::state::Server;
use crate::state::session::Session;
use crate::user::User;

/// Records a logon that was refused.
pub(super) fn refused(request: &Request<'_>, session: &Session, attempt: &mut Attempt, status: Status) {
    let status = attempt.cause.unwrap_or(status);
    if let Some(logon) = logon(request, session, attempt, status) {
        record(&request.connection.server, logon);
    }
}

/// Records a logon that has succeeded.
pub(super) fn admitted(request: &Request<'_>, session: &Session, attempt: &mut Attempt) {
    let server = &request.connection.server;
    // A wrong password that has made the client a guest is a guess nevertheless.
    if let Some(cause) = attempt.cause.take()
        && let Some(guess) = logon(request, session, attempt, cause)
    {
        attempt.sent.clone_from(&guess.sent);
        record(server, guess);
    }
    let Some(mut logon) = logon(request, session, attempt, Status::SUCCESS) else { return };
    logon.became = session.user().map(|user| became(&user));
    // The end of the session is recorded with the address of its first logon, and the names of its last one.
    match &mut *session.logged_on.lock() {
        Some(first) => (first.sent, first.became) = (logon.sent.clone(), logon.became.clone()),
        none => *none = Some(Box::new(logon.clone())),
    }
    record(server, logon);
}

/// Records the end of a session, once.
pub(super) fn ended(server: &Server, session: &Session) {
    let Some(logon) = session.logged_on.lock().take() else { return };
    record(server, Logon { time: server.environment.now(), event: LogonEvent::Logoff, ..*logon });
}

fn logon(request: &Request<'_>, session: &Session, attempt: &mut Attempt, status: Status) -> Option<Logon> {
    let server = &request.connection.server;
    let policy = server.policy();
    policy.logon_audit.is_on().then(|| Logon {
        time: server.environment.now(),
        event: LogonEvent::Logon,
        session: session.id,
        status,
        method: attempt.method,
        dialect: request.connection.dialect(),
        remote: request.connection.peer.remote,
        local: request.connection.peer.local,
        sent: std::mem::take(&mut attempt.sent),
        became: None,
        utc_offset: policy.utc_offset,
    })
}

fn became(user: &User) -> Became {
    let kind = if user.anonymous {
        "anonymous"
    } else if user.guest {
        "guest"
    } else {
        "user"
    };
    let sid = user.sids.first().map(ToString::to_string).unwrap_or_default();
    Became { name: user.name.clone(), domain: user.domain.clone(), sid, kind }
}

/// Gives an event to each destination that takes events of its level.
fn record(server: &Server, logon: Logon) {
    let policy = server.policy();
    let Some(destinations) = server.audit() else { return };
    for (destination, level) in &policy.logon_audit.sinks {
        if *level >= logon.level() {
            destinations.queue(destination).push(Event::Logon(Box::new(logon.clone())));
        }
    }
}
