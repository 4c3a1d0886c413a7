//! One WebSocket to the host, sealed or bare.

use futures_util::{FutureExt, SinkExt, StreamExt};
use serde::Deserialize;
use std::borrow::Cow;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::Res;
use crate::oip::Identity;
use crate::seal::{Hello, Seal};

/// The fields a scenario looks at; the rest of a frame is skipped unparsed.
#[derive(Deserialize)]
pub struct Head<'a> {
    #[serde(rename = "type", borrow, default)]
    pub kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub exec_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub status: Option<Cow<'a, str>>,
}

pub struct Client {
    ws: WebSocketStream<TcpStream>,
    seal: Option<Seal>,
    pub bytes_in: u64,
}

impl Client {
    /// Open the socket; with `seal_as`, do the SEAL handshake as that identity too.
    pub async fn open(authority: &str, to: &str, seal_as: Option<&Identity>) -> Res<Self> {
        let tcp = TcpStream::connect(authority).await?;
        tcp.set_nodelay(true)?;
        // The default read buffer is 128 KiB a socket: too much for 10 000 of them.
        let config = WebSocketConfig::default()
            .read_buffer_size(8 << 10)
            .max_message_size(None)
            .max_frame_size(None);
        let (ws, _) =
            client_async_with_config(format!("ws://{authority}/ws"), tcp, Some(config)).await?;
        let mut client = Client {
            ws,
            seal: None,
            bytes_in: 0,
        };
        if let Some(who) = seal_as {
            let hello = Hello::new(who, to);
            client.send(hello.frame.as_str().into()).await?;
            let reply = client.recv().await?;
            client.seal = Some(hello.finish(&reply)?);
        }
        Ok(client)
    }

    /// Queue one frame; nothing is written before `flush`.
    pub async fn feed(&mut self, frame: Utf8Bytes) -> Res<()> {
        let frame = match &mut self.seal {
            Some(seal) => seal.seal(&frame).into(),
            None => frame,
        };
        Ok(self.ws.feed(Message::Text(frame)).await?)
    }

    pub async fn flush(&mut self) -> Res<()> {
        Ok(self.ws.flush().await?)
    }

    pub async fn send(&mut self, frame: Utf8Bytes) -> Res<()> {
        self.feed(frame).await?;
        self.flush().await
    }

    fn unwrap(&mut self, text: Utf8Bytes) -> Res<Utf8Bytes> {
        self.bytes_in += text.len() as u64;
        match &mut self.seal {
            Some(seal) => Ok(seal.open(&text)?.into()),
            None => Ok(text),
        }
    }

    pub async fn recv(&mut self) -> Res<Utf8Bytes> {
        loop {
            match self.ws.next().await {
                Some(Ok(Message::Text(text))) => return self.unwrap(text),
                Some(Ok(Message::Close(frame))) => return Err(format!("closed: {frame:?}").into()),
                Some(Ok(_)) => continue,
                Some(Err(e)) => return Err(e.into()),
                None => return Err("closed".into()),
            }
        }
    }

    /// A frame that is already here, without waiting.
    pub fn try_recv(&mut self) -> Res<Option<Utf8Bytes>> {
        loop {
            match self.ws.next().now_or_never() {
                None => return Ok(None),
                Some(Some(Ok(Message::Text(text)))) => return self.unwrap(text).map(Some),
                Some(Some(Ok(Message::Close(_)))) | Some(None) => return Err("closed".into()),
                Some(Some(Ok(_))) => continue,
                Some(Some(Err(e))) => return Err(e.into()),
            }
        }
    }

    /// Read until a frame of this type. ERROR ends the wait, and so does a refusal to connect.
    pub async fn until(&mut self, kind: &str) -> Res<Utf8Bytes> {
        loop {
            let text = self.recv().await?;
            let head: Head = serde_json::from_str(&text)?;
            if head.kind == kind {
                return Ok(text);
            }
            if head.kind == "ERROR" || head.kind == "ONBOARD_REQUIRED" {
                return Err(text.as_str().into());
            }
        }
    }

    /// Say goodbye without waiting for the answer.
    pub async fn close(mut self) {
        let _ = self.ws.close(None).await;
    }
}

/// GET a path over plain HTTP/1.1, body only. Enough for /info on loopback.
pub async fn http_get(authority: &str, path: &str) -> Res<String> {
    let mut tcp = TcpStream::connect(authority).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    tcp.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    tcp.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let (_, body) = answer.split_once("\r\n\r\n").ok_or("no HTTP body")?;
    let (start, end) = (
        body.find('{').ok_or("no JSON")?,
        body.rfind('}').ok_or("no JSON")?,
    );
    Ok(body[start..=end].to_string())
}
