//! stub
use crate::identity::Address;
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum Event<'a> {
    SocketOpened {
        peer: &'a str,
        active: usize,
    },
    SocketClosed {
        active: usize,
    },
    Connected {
        identity: &'a Address,
        session: &'a str,
        status: &'a str,
        client_messages: Option<usize>,
        merged: bool,
        reattached: bool,
        foreign: bool,
    },
    Input {
        identity: &'a Address,
        session: &'a str,
        prompt: &'a str,
        images: usize,
        files: usize,
    },
    Exec {
        identity: &'a Address,
        tool: &'a str,
    },
    Other {
        message_type: &'a str,
    },
    Refused {
        what: &'a str,
        reason: &'a str,
    },
    AgentError {
        message: &'a str,
    },
}
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Console;
#[allow(missing_docs)]
impl Console {
    pub fn silent() -> Self {
        Self
    }
    pub fn emit(&self, _e: Event<'_>) {}
    pub async fn flush(&self) {}
}
