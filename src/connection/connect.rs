//! CONNECT: from a claimed signature to a session with a viewer.

use std::sync::Arc;

use crate::console::Event;
use crate::gate::{Caller, Passed, Refusal, negotiated};
use crate::session::{History, Opened, Status};
use crate::wire::inbound::Connect;
use crate::wire::json::{Object, Raw};
use crate::wire::outbound;

use super::{Connection, Going, ON, STOP};

impl Connection {
    /// A CONNECT whose signature verified and was claimed.
    pub(super) async fn connect(&mut self, passed: Passed<'_>) -> Going {
        let claimed = passed.verified.claimed();
        let caller = negotiated(&claimed.payload).map(|signed_commands| Caller {
            address: claimed.signer,
            recipient: claimed.recipient,
            signed_commands,
        });
        let read = caller.and_then(|caller| {
            let connect = Connect::read(&passed.frame)
                .map_err(|wrong| Refusal::Malformed(wrong.to_string()))?;
            Ok((caller, connect))
        });
        let (caller, connect) = match read {
            Ok(read) => read,
            Err(refusal) => return self.refuse(&refusal),
        };
        self.record_compatibility(&connect);
        if let Some(before) = self.gate.caller() {
            return self.connect_again(before, caller, &connect);
        }
        if let Err(refused) = self.services.trust.admit(&caller.address) {
            return self.refuse(&Refusal::Policy(refused.to_string()));
        }
        if connect.protocol == Some(false) {
            self.outbox.send(outbound::unsupported_protocol());
            self.outbox.close(1002, "Unsupported OIP protocol");
            return STOP;
        }
        if index_only(&claimed.payload) {
            return self.refuse(&Refusal::Malformed(
                "session-sync is not offered by this host".into(),
            ));
        }
        let opened = self
            .services
            .registry
            .open(
                caller.address,
                connect.session_id.as_deref(),
                connect.session.as_ref(),
            )
            .await;
        match opened {
            Ok(opened) => self.enter(caller, &connect, opened),
            Err(failed) => {
                tracing::error!(%failed, "a session cannot be read");
                self.refuse(&Refusal::Policy(
                    "misconfigured: the session store is unavailable".into(),
                ))
            }
        }
    }

    fn enter(&mut self, caller: Caller, connect: &Connect<'_>, opened: Opened) -> Going {
        let Opened {
            session,
            fresh,
            foreign,
        } = opened;
        let client = connect.session.as_ref().map(History::client_version);
        let (status, newer) = session.join(
            &self.outbox,
            fresh,
            connect.last_msg_id.as_deref(),
            |ours| is_newer(ours, client),
        );
        self.gate.authenticated(caller);
        self.services.console.emit(Event::Connected {
            identity: caller.address,
            session: &session.id,
            status: status.word(),
            client_messages: connect.session.as_ref().map_or(0, client_messages),
            merged: newer,
            reattached: status == Status::Running,
        });
        if foreign {
            self.services.console.emit(Event::Notice(
                "  ↩ that session belongs to another caller: a new one",
            ));
        }
        self.outbox.send(self.services.profile(&session.id));
        self.session = Some(session);
        ON
    }

    /// The same CONNECT over again, freshly signed: a relay's client reloaded its page before the
    /// old route was closed. Anything else has to open a connection of its own (fact F61).
    fn connect_again(&mut self, before: Caller, caller: Caller, connect: &Connect<'_>) -> Going {
        let same = match &self.session {
            Some(session) if before == caller && connect.protocol != Some(false) => {
                (connect.session_id.as_deref() == Some(session.id.as_str()))
                    .then(|| Arc::clone(session))
            }
            _ => None,
        };
        let Some(session) = same else {
            return self.refuse(&Refusal::AlreadyAuthenticated);
        };
        let client = connect.session.as_ref().map(History::client_version);
        let fresh = session.turns() == 0;
        session.join(
            &self.outbox,
            fresh,
            connect.last_msg_id.as_deref(),
            |ours| is_newer(ours, client),
        );
        self.outbox.send(self.services.profile(&session.id));
        ON
    }

    pub(super) fn refuse(&self, refusal: &Refusal) -> Going {
        self.say_refused(refusal);
        self.outbox.send(refusal.frame());
        ON
    }

    /// One content-free record for each CONNECT: who speaks which protocol, and nothing else.
    fn record_compatibility(&self, connect: &Connect<'_>) {
        let (peer, outcome) = match connect.protocol {
            None => ("legacy", "accepted"),
            Some(true) => ("oip/0.1", "accepted"),
            Some(false) => ("unsupported", "rejected"),
        };
        tracing::debug!(target: "oip_compat", transport = self.transport, peer, outcome, "OIP_COMPAT");
    }
}

/// History is only worth sending if the client's copy is older; a client without a copy has the
/// oldest one.
fn is_newer(ours: &History, client: Option<crate::session::Version>) -> bool {
    !ours.messages.is_empty() && ours.version() > client.unwrap_or_default()
}

fn client_messages(session: &Object<'_>) -> usize {
    let messages = session.get("messages").and_then(Raw::as_array);
    messages.map_or(0, |messages| messages.len())
}

fn index_only(payload: &Object<'_>) -> bool {
    payload
        .get("session_sync_only")
        .is_some_and(|raw| raw.as_f64() == Some(1.0) || raw.as_bool() == Some(true))
}
