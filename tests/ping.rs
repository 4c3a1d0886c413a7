//! Signs of life (fact F51).

use std::time::Duration;

use serde_json::json;

use crate::common::{Person, TestClient, TestHost};

/// Let half a minute pass for the host.
async fn half_a_minute() {
    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(30_500)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn every_socket_is_pinged_each_half_minute() {
    let host = TestHost::start().await;
    let mut stranger = TestClient::dial(&host).await;
    stranger.send(&json!({"type": "PONG"})).await;
    stranger.expect_quiet().await;
    let mut client = TestClient::v2(&host).await;
    for _ in 0..3 {
        half_a_minute().await;
        for socket in [&mut stranger, &mut client] {
            assert_eq!(socket.next_text().await, r#"{"type":"PING"}"#);
            socket.send(&json!({"type": "PONG"})).await;
            socket.expect_quiet().await;
        }
    }
}

#[tokio::test]
async fn inside_a_seal_the_ping_is_sealed() {
    let host = TestHost::start().await;
    let mut client = TestClient::sealed(&host, Person::new()).await;
    client.connect(json!({})).await;
    half_a_minute().await;
    let text = client.next_text().await;
    assert!(text.starts_with(r#"{"type":"SEALED","#), "{text}");
    assert_eq!(client.open(&text)["type"], "PING");
}
