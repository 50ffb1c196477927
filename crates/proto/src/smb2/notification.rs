//! SERVER_TO_CLIENT_NOTIFICATION ([MS-SMB2] 2.2.44), which the server sends without expecting a response. 3.1.1 only,
//! and only to a client with [`super::negotiate::Capabilities::NOTIFICATIONS`].

use super::body;
use crate::bytes::{Result, Writer};
use crate::values::values;

values! {
    /// The type of a notification ([MS-SMB2] 2.2.44.1).
    pub struct NotificationType(u32) {
        /// The session was closed.
        SESSION_CLOSED = 0;
    }
}

/// A notification.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ServerToClientNotification<'a> {
    /// The type.
    pub notification_type: NotificationType,
    /// The data: four reserved bytes for a closed session (2.2.44.2).
    pub notification: &'a [u8],
}

impl<'a> ServerToClientNotification<'a> {
    /// The notification of a closed session.
    pub const SESSION_CLOSED: ServerToClientNotification<'static> =
        ServerToClientNotification { notification_type: NotificationType::SESSION_CLOSED, notification: &[0; 4] };
    /// Eight fixed bytes and the four of the only type; the specification does not give a number.
    const STRUCTURE_SIZE: u16 = 12;

    /// Reads the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self> {
        let mut reader = body(message, Self::STRUCTURE_SIZE)?;
        reader.skip(2)?;
        let notification_type = NotificationType(reader.u32()?);
        Ok(ServerToClientNotification { notification_type, notification: reader.rest() })
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(Self::STRUCTURE_SIZE);
        out.u16(0);
        out.u32(self.notification_type.0);
        out.bytes(self.notification);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smb2::testing::{golden, round_trips};

    // 2.2.44.1: StructureSize, Reserved, NotificationType, Notification; 2.2.44.2: Reserved.
    #[test]
    fn a_closed_session() {
        let notification = ServerToClientNotification::SESSION_CLOSED;
        golden!(ServerToClientNotification, notification, "0c00 0000 00000000 00000000");
    }

    round_trips! {
        notifications_round_trip: ServerToClientNotification<'_> = |s| ServerToClientNotification {
            notification_type: NotificationType(s.u32()),
            notification: s.slice(),
        };
    }
}
