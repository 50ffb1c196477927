//! Attacks without a user account: before the logon, or with an anonymous one.

use std::time::Duration;

use anyhow::Result;
use client::{Client, Open, Options};
use proto::auth::ntlm::Initiator;
use proto::auth::spnego::{MechType, encode_init, encode_mech_types};
use proto::smb2::echo::EchoRequest;
use proto::smb2::header::Command;
use proto::smb2::negotiate::{Capabilities, SecurityMode};
use proto::smb2::session_setup::{SessionSetupFlags, SessionSetupRequest};

use super::open_many;
use crate::attack::Attack;
use crate::scene::{HOST, Scene};
use crate::wire::Wire;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "strangers.frames",
        what: "128 anonymous sessions announce frames of 8 MiB each and send all but the last byte",
        prepare: None,
        run: |scene| Box::pin(frames(scene)),
    },
    Attack {
        name: "strangers.echoes",
        what: "32 connections without a session send ECHOs and read no answer",
        prepare: None,
        run: |scene| Box::pin(echoes(scene)),
    },
    Attack {
        name: "strangers.anonymous-echoes",
        what: "32 anonymous sessions send ECHOs and read no answer",
        prepare: None,
        run: |scene| Box::pin(anonymous_echoes(scene)),
    },
    Attack {
        name: "strangers.pipes",
        what: "anonymous sessions open pipes until they are refused, and keep them",
        prepare: None,
        run: |scene| Box::pin(pipes(scene)),
    },
    Attack {
        name: "strangers.silent",
        what: "1,000 connections send nothing",
        prepare: None,
        run: |scene| Box::pin(silent(scene)),
    },
    Attack {
        name: "strangers.half-logons",
        what: "200 connections start logons continuously and finish none",
        prepare: None,
        run: |scene| Box::pin(half_logons(scene)),
    },
    Attack {
        name: "strangers.guesses",
        what: "32 connections guess alice's password repeatedly",
        prepare: None,
        run: |scene| Box::pin(guesses(scene)),
    },
    Attack {
        name: "strangers.comings",
        what: "64 clients connect and disconnect repeatedly, half of them after NEGOTIATE",
        prepare: None,
        run: |scene| Box::pin(comings(scene)),
    },
];

/// Bytes of a frame after an anonymous logon, as large as a WRITE of 8 MiB.
const LONG: usize = 8 << 20;

async fn frames(scene: &Scene) -> Result<()> {
    let piece = vec![0; 256 << 10];
    scene
        .crowd(128, async || {
            let mut wire = scene.raw(scene.anonymous().await?)?;
            wire.bytes(&(LONG as u32).to_be_bytes());
            scene.asked(1);
            for _ in 0..LONG / piece.len() - 1 {
                wire.bytes(&piece);
                wire.send().await?;
            }
            wire.bytes(&piece[1..]);
            wire.send().await?;
            wire.hold().await
        })
        .await
}

async fn flood_echoes(scene: &Scene, mut wire: Wire) -> Result<()> {
    loop {
        // Each is assumed to return the credit that it costs, because the client reads no responses.
        for _ in 0..256 {
            wire.queue(Command::ECHO, 1, |out| EchoRequest.encode(out));
        }
        wire.send().await?;
        scene.asked(256);
    }
}

/// Sends ECHOs until all available credits are granted or one is refused. The flood follows in either case.
async fn with_credits(scene: &Scene, mut client: Client) -> Result<Wire> {
    for _ in 0..20 {
        if client.echo().await.is_err() {
            break;
        }
    }
    scene.raw(client)
}

async fn echoes(scene: &Scene) -> Result<()> {
    scene.crowd(32, async || flood_echoes(scene, with_credits(scene, scene.negotiated().await?).await?).await).await
}

async fn anonymous_echoes(scene: &Scene) -> Result<()> {
    scene.crowd(32, async || flood_echoes(scene, with_credits(scene, scene.anonymous().await?).await?).await).await
}

async fn pipes(scene: &Scene) -> Result<()> {
    scene
        .crowd(4, async || {
            let mut client = scene.anonymous().await?;
            let open = Open::file("srvsvc");
            loop {
                // Beyond the limit of one session, the next session has the same number again.
                while let Ok(handles) = open_many(&mut client, &open, 256).await {
                    scene.asked(handles.len() as u64);
                    if handles.len() < 256 {
                        break;
                    }
                }
                client.log_on_again(HOST, &scene.anonymous_options()).await?;
                client.tree_connect(HOST, "IPC$").await?;
                scene.asked(2);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
}

async fn silent(scene: &Scene) -> Result<()> {
    scene.crowd(1000, async || scene.stranger().await?.hold().await).await
}

async fn half_logons(scene: &Scene) -> Result<()> {
    let initiator = Initiator::new(None, "ATTACKER", "cifs/server");
    let token = encode_init(&encode_mech_types(&[MechType::NTLMSSP]), Some(initiator.negotiate()));
    let setup = SessionSetupRequest {
        flags: SessionSetupFlags(0),
        security_mode: SecurityMode::SIGNING_ENABLED,
        capabilities: Capabilities(0),
        previous_session_id: 0,
        buffer: &token,
    };
    scene
        .crowd(200, async || {
            let mut wire = scene.raw(scene.negotiated().await?)?;
            loop {
                wire.queue(Command::SESSION_SETUP, 1, |out| setup.encode(out));
                wire.send().await?;
                wire.answer().await?;
                scene.asked(1);
                // The next request starts another session; the previous one stays incomplete.
                tokio::task::yield_now().await;
            }
        })
        .await
}

async fn guesses(scene: &Scene) -> Result<()> {
    let options = Options {
        credentials: client::Credentials::password("alice", "not her password"),
        ..scene.anonymous_options()
    };
    scene
        .crowd(32, async || {
            let mut client = scene.negotiated().await?;
            scene.asked(2);
            client.log_on_again(HOST, &options).await?;
            anyhow::bail!("a wrong password was accepted")
        })
        .await
}

async fn comings(scene: &Scene) -> Result<()> {
    scene
        .crowd(64, async || {
            drop(scene.stranger().await?);
            drop(scene.negotiated().await?);
            scene.asked(1);
            Ok(())
        })
        .await
}
