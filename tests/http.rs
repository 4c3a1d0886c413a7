//! HTTP beside the socket (facts F54, F55, F72).

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::TestHost;

/// An answer: status, headers in lower case, body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim_start_matches(": "))
    }

    fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"));
        serde_json::from_str(&self.body).unwrap()
    }
}

/// One request on a connection of its own; `more` are header lines.
async fn ask(host: &TestHost, request: &str, more: &str) -> Answer {
    let mut stream = TcpStream::connect(host.socket()).await.unwrap();
    let text = format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{more}\r\n");
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let reading = stream.read_to_end(&mut answer);
    let limit = std::time::Duration::from_secs(10);
    tokio::time::timeout(limit, reading).await.unwrap().unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    Answer {
        status: head[9..12].parse().unwrap(),
        head: head.to_lowercase(),
        body: body.to_owned(),
    }
}

fn check_cors(answer: &Answer) {
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    assert_eq!(
        answer.header("access-control-allow-methods"),
        Some("get, post, options")
    );
    assert_eq!(
        answer.header("access-control-allow-headers"),
        Some(
            "authorization, content-type, x-co-from, x-co-signature, x-co-timestamp, x-co-to, x-co-request-id"
        )
    );
}

#[tokio::test]
async fn info_says_what_react_looks_for() {
    let host = TestHost::with(|config| config.name = "A <b>name</b>".into()).await;
    let answer = ask(&host, "GET /info", "origin: https://chat.example\r\n").await;
    assert_eq!(answer.status, 200);
    check_cors(&answer);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let info = answer.json();
    let version = info["version"].as_str().unwrap().to_owned();
    assert_eq!(
        info,
        json!({
            "name": "A <b>name</b>",
            "address": host.address().to_string(),
            "tools": ["echo_tool", "slow_step", "always_fails"],
            "model": "stub/scripted-1",
            "trust": "open",
            "version": version,
            "skills": [],
            "accepted_inputs": {
                "text": true, "images": true,
                "files": {"max_file_size_mb": 10, "max_files_per_request": 10},
            },
            "protocol": {
                "name": "oip", "version": "0.1", "min_version": "0.1", "max_version": "0.1",
                "websocket_path": "/ws",
            },
        })
    );
    let address = info["address"].as_str().unwrap();
    assert_eq!(address, address.to_lowercase());
    let keys: Vec<_> = info.as_object().unwrap().keys().collect();
    assert_eq!(keys[..3], ["name", "address", "tools"]);
    // A query changes nothing.
    assert_eq!(ask(&host, "GET /info?t=1", "").await.json(), info);
}

#[tokio::test]
async fn info_tells_the_configured_limits() {
    let host = TestHost::with(|config| {
        config.max_file_size = 3;
        config.max_files_per_request = 4;
    })
    .await;
    let info = ask(&host, "GET /info", "").await.json();
    assert_eq!(
        info["accepted_inputs"]["files"],
        json!({"max_file_size_mb": 3, "max_files_per_request": 4})
    );
}

#[tokio::test]
async fn the_index_is_a_page_for_people() {
    let host = TestHost::with(|config| config.name = "A <b>name</b>".into()).await;
    let answer = ask(&host, "GET /", "").await;
    assert_eq!(answer.status, 200);
    check_cors(&answer);
    assert!(
        answer
            .header("content-type")
            .unwrap()
            .starts_with("text/html")
    );
    assert!(answer.body.contains(&host.address().to_string()));
    assert!(answer.body.contains("A &lt;b&gt;name&lt;/b&gt;"));
    assert!(!answer.body.contains("<b>"));
}

#[tokio::test]
async fn whatever_is_not_there_is_not_found() {
    let host = TestHost::start().await;
    let upgrade = "upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (request, more) in [
        ("GET /nothing", ""),
        ("POST /info", ""),
        ("DELETE /health", ""),
        ("GET /ws", ""),
        ("POST /ws", ""),
        ("GET /ws/", ""),
        ("GET /ws/input", ""),
        ("GET /other", upgrade),
        ("GET /../etc/passwd", ""),
    ] {
        let answer = ask(&host, request, more).await;
        assert_eq!(answer.status, 404, "{request}");
        check_cors(&answer);
        assert_eq!(answer.json(), json!({"error": "not found"}), "{request}");
    }
    for path in ["/", "/info", "/ws", "/nothing"] {
        let answer = ask(&host, &format!("OPTIONS {path}"), "").await;
        assert_eq!(answer.status, 204, "{path}");
        assert_eq!(answer.body, "");
        check_cors(&answer);
    }
}

#[tokio::test]
async fn the_socket_has_the_paths_that_clients_form() {
    let host = TestHost::start().await;
    let address = host.socket();
    for path in ["/ws", "/ws?x=1", "//ws", "//ws?x=1"] {
        let stream = TcpStream::connect(address).await.unwrap();
        let url = format!("ws://{address}{path}");
        let upgraded = tokio_tungstenite::client_async(url, stream).await;
        assert!(upgraded.is_ok(), "{path}: {:?}", upgraded.err());
    }
    for path in ["/", "/info", "/wss", "/ws/x", "/socket"] {
        let stream = TcpStream::connect(address).await.unwrap();
        let url = format!("ws://{address}{path}");
        let upgraded = tokio_tungstenite::client_async(url, stream).await;
        assert!(upgraded.is_err(), "{path}");
    }
}

#[tokio::test]
async fn health_is_that_of_the_files() {
    let host = TestHost::start().await;
    let healthy = ask(&host, "GET /health", "").await;
    assert_eq!(healthy.status, 200);
    check_cors(&healthy);
    let body = healthy.json();
    assert_eq!(body["status"], "healthy");
    assert_eq!(body["agent"], "stub-agent");
    assert!(body["uptime"].is_u64());

    let ledger = host.file("replay.sqlite3");
    std::fs::rename(&ledger, host.file("aside")).unwrap();
    std::fs::create_dir(&ledger).unwrap();
    let sick = until_status(&host, 503).await;
    assert_eq!(sick["status"], "unhealthy");
    assert_eq!(sick["ledger"]["writable"], false);
    assert!(sick["ledger"]["reason"].is_string());
    assert_eq!(sick["store"]["writable"], true);
    std::fs::remove_dir(&ledger).unwrap();
    std::fs::rename(host.file("aside"), &ledger).unwrap();
    let well = until_status(&host, 200).await;
    assert_eq!(well["status"], "healthy");
}

#[tokio::test]
async fn health_is_that_of_the_store_too() {
    let host = TestHost::start().await;
    // Somebody else holds the store for longer than a write waits.
    let file = rusqlite::Connection::open(host.file("oip.sqlite3")).unwrap();
    file.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let sick = until_status(&host, 503).await;
    assert_eq!(sick["store"]["writable"], false);
    assert_eq!(sick["ledger"]["writable"], true);
    file.execute_batch("ROLLBACK").unwrap();
    until_status(&host, 200).await;
}

/// A success of the last second is still good, so ask until the answer is this.
async fn until_status(host: &TestHost, status: u16) -> Value {
    let asking = async {
        loop {
            let answer = ask(host, "GET /health", "").await;
            if answer.status == status {
                return answer.json();
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let limit = std::time::Duration::from_secs(20);
    tokio::time::timeout(limit, asking).await.unwrap()
}
