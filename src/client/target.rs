//! Where a host is.

use std::net::IpAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::identity::Address;
use crate::wire::json::{Object, Raw};

use super::ClientError;

/// How long an HTTP answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest HTTP answer that is read, in bytes.
const ANSWER_LIMIT: u64 = 1 << 20;

/// A host and port, and the path of its socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    authority: String,
}

impl Target {
    /// Read `ws://host:port/ws`, `http://host:port` or `host:port`.
    ///
    /// # Errors
    /// [`ClientError::Target`] says why the text is no place to connect to.
    pub fn parse(text: &str) -> Result<Self, ClientError> {
        let refuse = |why: &str| ClientError::Target(format!("{text}: {why}"));
        if text.parse::<Address>().is_ok() {
            return Err(refuse(
                "that is an address; where its host is has to be found first",
            ));
        }
        let rest = match text.split_once("://") {
            Some(("ws" | "http", rest)) => rest,
            Some(("wss" | "https", _)) => {
                return Err(refuse(
                    "this client speaks no TLS; a sealed ws:// connection is as private",
                ));
            }
            Some(_) => return Err(refuse("give ws://HOST:PORT, http://HOST:PORT or HOST:PORT")),
            None => text,
        };
        let (authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, path.trim_end_matches('/')),
            None => (rest, ""),
        };
        if !matches!(path, "" | "ws") {
            return Err(refuse("a host's socket is at /ws"));
        }
        let name_and_port = authority.rsplit_once(':').filter(|(name, port)| {
            !name.is_empty()
                && port.parse::<u16>().is_ok()
                && (!name.contains(':') || name.ends_with(']'))
        });
        let authority = match name_and_port {
            Some(_) => authority.to_owned(),
            None if authority.is_empty() || authority.contains([' ', '@']) => {
                return Err(refuse("give HOST:PORT"));
            }
            None => format!("{authority}:8000"),
        };
        Ok(Self { authority })
    }

    /// `host:port`.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    fn name(&self) -> &str {
        let name = self.authority.rsplit_once(':').map_or("", |(name, _)| name);
        name.trim_start_matches('[').trim_end_matches(']')
    }

    /// The network address, if it is not a name.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        self.name()
            .parse::<IpAddr>()
            .ok()
            .map(|ip| ip.to_canonical())
    }

    /// Whether the connection stays on this machine.
    pub fn is_loopback(&self) -> bool {
        self.name() == "localhost" || self.ip().is_some_and(|ip| ip.is_loopback())
    }

    pub(super) async fn dial(&self) -> Result<TcpStream, ClientError> {
        let stream = TcpStream::connect(&self.authority)
            .await
            .map_err(|error| self.unreachable(&error))?;
        // Small frames are sent when they are made.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    pub(super) fn unreachable(&self, reason: &dyn std::fmt::Display) -> ClientError {
        ClientError::Unreachable {
            at: self.authority.clone(),
            reason: reason.to_string(),
        }
    }

    /// Ask the host for its address.
    ///
    /// # Errors
    /// It cannot be reached, or what answers is no OIP host.
    pub async fn address(&self) -> Result<Address, ClientError> {
        let body = get(self, "/info").await?;
        let address = Object::parse(body.trim())
            .ok()
            .and_then(|info| info.get("address").and_then(Raw::as_str)?.parse().ok());
        address.ok_or_else(|| ClientError::NotAHost {
            at: self.authority.clone(),
            reason: "its /info names no address".to_owned(),
        })
    }
}

/// The body of a GET. HTTP/1.0, so that the body is all up to the end.
pub(super) async fn get(at: &Target, path: &str) -> Result<String, ClientError> {
    let exchange = async {
        let mut stream = at.dial().await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", at.authority);
        let mut answer = Vec::new();
        let exchanged = async {
            stream.write_all(request.as_bytes()).await?;
            stream.take(ANSWER_LIMIT).read_to_end(&mut answer).await
        };
        exchanged.await.map_err(|error| at.unreachable(&error))?;
        let answer = String::from_utf8_lossy(&answer);
        match answer.split_once("\r\n\r\n") {
            Some((head, body)) if head.split(' ').nth(1) == Some("200") => Ok(body.to_owned()),
            _ => Err(ClientError::NotAHost {
                at: at.authority.clone(),
                reason: format!("it does not answer GET {path}"),
            }),
        }
    };
    let asked = timeout(ANSWER_TIMEOUT, exchange).await;
    asked.map_err(|_| ClientError::Timeout {
        what: "HTTP answer",
        seconds: ANSWER_TIMEOUT.as_secs(),
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_place() {
        for (text, authority) in [
            ("ws://127.0.0.1:8000/ws", "127.0.0.1:8000"),
            ("http://example.org:81/", "example.org:81"),
            ("localhost:9", "localhost:9"),
            ("example.org", "example.org:8000"),
            ("[::1]:7", "[::1]:7"),
            ("ws://[::1]", "[::1]:8000"),
        ] {
            assert_eq!(
                Target::parse(text).unwrap().authority(),
                authority,
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_place_is_said() {
        let address = Address::from_bytes([1; 32]).to_string();
        for (text, why) in [
            (address.as_str(), "found first"),
            ("wss://example.org/ws", "TLS"),
            ("ftp://example.org", "ws://"),
            ("ws://example.org:80/other", "/ws"),
            ("", "HOST:PORT"),
        ] {
            let said = Target::parse(text).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn loopback_is_this_machine_only() {
        for (text, here) in [
            ("127.0.0.1:1", true),
            ("127.9.9.9:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("localhost:1", true),
            ("10.0.0.1:1", false),
            ("localhost.example.org:1", false),
        ] {
            assert_eq!(Target::parse(text).unwrap().is_loopback(), here, "{text}");
        }
    }
}
