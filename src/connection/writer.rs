//! The task that writes one connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::seal::Sealer;
use crate::session::{Item, Outbox};
use crate::transport::{Gone, Sink};
use crate::wire::{Text, outbound};

/// Bytes of a turn's log that are taken at a time, so that answers get between them.
const CHUNK: usize = 64 << 10;

/// Write what comes into `outbox` until the connection ends; PING every `ping`.
pub(super) async fn write(outbox: Arc<Outbox>, mut sink: impl Sink, ping: Duration) {
    let mut sealer = None;
    let mut pings = interval_at(Instant::now() + ping, ping);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = outbox.ready() => {}
            _ = pings.tick() => outbox.send(Text::from_static(outbound::PING)),
        }
        match drain(&outbox, &mut sink, &mut sealer).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(Gone) => {
                outbox.gone();
                return;
            }
        }
    }
}

/// Write until nothing is left; false if that was the last.
async fn drain(
    outbox: &Outbox,
    sink: &mut impl Sink,
    sealer: &mut Option<Box<Sealer>>,
) -> Result<bool, Gone> {
    loop {
        if outbox.is_gone() {
            return Ok(false);
        }
        let taken = outbox.take(CHUNK);
        let empty = taken.items.is_empty();
        for item in taken.items {
            match item {
                Item::Seal(channel) => *sealer = Some(channel),
                Item::Clear(text) => sink.feed(text).await?,
                Item::Frame(text) => {
                    let text = match sealer {
                        Some(sealer) => sealer.seal(&text).into(),
                        None => text,
                    };
                    sink.feed(text).await?;
                }
            }
        }
        if !empty {
            sink.flush().await?;
        }
        if let Some(closing) = taken.closing {
            sink.close(closing.code, &closing.reason).await;
            return Ok(false);
        }
        if empty {
            return Ok(true);
        }
    }
}
