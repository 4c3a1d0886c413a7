//! Stopping: running turns end well, new ones do not begin.

use std::time::Duration;

use serde_json::json;

use crate::common::{TestClient, TestHost, eventually, types};

#[tokio::test]
async fn a_running_turn_is_finished_first() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    let mut idle = TestClient::v2(&host).await;
    client.input("slow 2").await;
    client.until("tool_call").await;
    let socket = host.socket();
    let stopping = tokio::spawn(host.host.stop());
    // Once nobody new is let in, the host is draining.
    eventually("the door to close", || {
        std::net::TcpStream::connect(socket).is_err()
    })
    .await;
    for other in [&mut idle, &mut client] {
        other.input("one more").await;
    }
    let error = idle.expect_error("the host is shutting down").await;
    assert_eq!(
        (&error["code"], &error["retryable"]),
        (&json!(-32000), &json!(true))
    );
    client.expect_error("the host is shutting down").await;
    let frames = client.until("OUTPUT").await;
    let output = &frames[frames.len() - 1];
    assert_eq!(output["result"], "slow finished after 2 steps");
    assert_eq!(frames[frames.len() - 2]["reason"], "natural");
    client.expect_close(1001).await;
    idle.expect_close(1001).await;
    stopping.await.unwrap();
}

#[tokio::test]
async fn without_patience_it_is_interrupted() {
    let host = TestHost::with(|config| config.drain_timeout = Duration::ZERO).await;
    let mut client = TestClient::v2(&host).await;
    client.input("slow 30").await;
    client.until("tool_call").await;
    let session = client.session.clone();
    let restarting = tokio::spawn(host.restart());
    let frames = client.until("OUTPUT").await;
    assert_eq!(
        types(&frames),
        ["tool_result", "complete", "turn_result", "OUTPUT"]
    );
    assert_eq!(frames[2]["reason"], "interrupted");
    client.expect_close(1001).await;
    let host = restarting.await.unwrap();
    let mut back = TestClient::dial_as(&host, client.person).await;
    let connected = back.connect(json!({"session_id": session})).await;
    assert_eq!(connected["status"], "connected");
    assert_eq!(connected["session"], frames[3]["session"]);
}

#[tokio::test]
async fn a_sealed_socket_and_a_silent_one_are_told_too() {
    let host = TestHost::start().await;
    let mut sealed = TestClient::sealed(&host, crate::common::Person::new()).await;
    sealed.connect(json!({})).await;
    let mut silent = TestClient::dial(&host).await;
    let stopping = tokio::spawn(host.host.stop());
    sealed.expect_close(1001).await;
    silent.expect_close(1001).await;
    stopping.await.unwrap();
}

#[tokio::test]
async fn a_client_that_says_goodbye_is_answered() {
    use futures_util::StreamExt;
    use tokio_tungstenite::tungstenite::Message;
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    client.socket.close(None).await.unwrap();
    // The close handshake is complete: a browser calls that a clean end.
    let answer = tokio::time::timeout(Duration::from_secs(10), client.socket.next()).await;
    let answer = answer.unwrap();
    assert!(matches!(answer, Some(Ok(Message::Close(_)))), "{answer:?}");
    eventually("the socket to go", || host.host.load().1 == 0).await;
}
