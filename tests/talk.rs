//! `oip chat` and `oip call` against a real host.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::common::{Directory, TestHost};

/// Run `oip` in a folder of its own with these lines as its input.
async fn oip(folder: &std::path::Path, args: Vec<String>, input: &'static str) -> Output {
    let folder = folder.to_owned();
    tokio::task::spawn_blocking(move || {
        let mut child = Command::new(env!("CARGO_BIN_EXE_oip"))
            .args(args)
            .current_dir(&folder)
            .env("HOME", &folder)
            .env_remove("PORT")
            .env("NO_COLOR", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        child.wait_with_output().unwrap()
    })
    .await
    .unwrap()
}

fn args(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_gets_the_answers_and_a_person_the_rest() {
    let host = TestHost::start().await;
    let folder = tempfile::tempdir().unwrap();
    let url = format!("ws://{}/ws", host.socket());
    let out = oip(
        folder.path(),
        args(&["chat", &url]),
        "hello\nslow 1\nunicode\n",
    )
    .await;
    assert_eq!(
        text(&out.stdout),
        "Hello! You said: hello\nslow finished after 1 steps\nhéllo 世界 🚀 \u{2028} \\ \" </script> end\n"
    );
    let beside = text(&out.stderr);
    for part in ["sealed", "⚙ slow_step(i: 0)", "→ step 0 ok"] {
        assert!(beside.contains(part), "{part} is missing in\n{beside}");
    }
    assert_eq!(out.status.code(), Some(0));
    let out = oip(
        folder.path(),
        args(&["chat", "--bare", &url]),
        "fail\nboom\n",
    )
    .await;
    assert_eq!(text(&out.stdout), "tool failed\n");
    assert_eq!(text(&out.stderr), "✗ Unable to run agent\n");
    assert_eq!(out.status.code(), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_goes_on_by_its_session() {
    let host = TestHost::start().await;
    let folder = tempfile::tempdir().unwrap();
    let url = host.socket().to_string();
    let chat = args(&["chat", &url, "--session", "ours"]);
    oip(folder.path(), chat.clone(), "hello\n/mode read-only\n").await;
    let out = oip(folder.path(), chat, "again\n").await;
    assert_eq!(text(&out.stdout), "Hello! You said: again\n");
    let store = rusqlite::Connection::open(host.file("oip.sqlite3")).unwrap();
    let row: (u64, String) = store
        .query_row(
            "SELECT turn, mode FROM sessions WHERE id = 'ours'",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    assert_eq!(row, (2, "read-only".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_is_called_with_exit_codes_that_mean_something() {
    let host = TestHost::start().await;
    host.list("contacts.txt", "*\n");
    let folder = tempfile::tempdir().unwrap();
    let url = host.socket().to_string();
    let call = |more: &[&str]| args(&[&["call", &url], more].concat());
    let out = oip(folder.path(), call(&["echo_tool", "text=hi 世界"]), "").await;
    assert_eq!(
        (text(&out.stdout), out.status.code()),
        ("echo: hi 世界\n".into(), Some(0))
    );
    let out = oip(folder.path(), call(&["echo_tool", "n=1"]), "").await;
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("wrong arguments"));
    let out = oip(folder.path(), call(&["danger", "--json"]), "").await;
    assert_eq!(out.status.code(), Some(1));
    let frame: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(frame["error"].as_str().unwrap().starts_with("blocked: "));
    let out = oip(folder.path(), call(&["echo_tool", "five"]), "").await;
    assert_eq!(out.status.code(), Some(2));
    host.host.stop().await;
    let out = oip(folder.path(), call(&["echo_tool", "text=hi"]), "").await;
    assert_eq!(out.status.code(), Some(2));
    assert_eq!(text(&out.stderr).lines().count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_is_told_what_its_operator_can_do() {
    let host = TestHost::with(|config| config.trust = oip_host::trust::Policy::Careful).await;
    let folder = tempfile::tempdir().unwrap();
    let url = host.socket().to_string();
    let out = oip(folder.path(), args(&["chat", &url]), "hello\n").await;
    assert_eq!(out.status.code(), Some(1));
    let said = text(&out.stderr);
    let me = said
        .split_whitespace()
        .find(|word| word.starts_with("0x"))
        .unwrap();
    assert!(
        said.contains("forbidden") && said.contains("contacts.txt"),
        "{said}"
    );
    host.list("contacts.txt", me);
    let out = oip(folder.path(), args(&["chat", &url]), "hello\n").await;
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_is_looked_up() {
    let host = TestHost::start().await;
    host.list("contacts.txt", "*\n");
    let other = TestHost::start().await;
    let folder = tempfile::tempdir().unwrap();
    let address = host.address().to_string();
    // The first endpoint is somebody else's by now, the second is nobody's.
    let directory = Directory::listing(vec![
        format!("http://{}", other.socket()),
        format!("ws://{}/ws", other.socket()),
        "http://127.0.0.1:1".into(),
        format!("ws://{}/ws", host.socket()),
    ])
    .await;
    let call = |target: &str| {
        args(&[
            "call",
            target,
            "echo_tool",
            "text=hi",
            "--directory",
            &directory.url,
        ])
    };
    let out = oip(folder.path(), call(&address), "").await;
    assert_eq!(text(&out.stdout), "echo: hi\n", "{}", text(&out.stderr));
    let nobody = format!("0x{}", "11".repeat(32));
    let out = oip(folder.path(), call(&nobody), "").await;
    assert_eq!(out.status.code(), Some(2));
    let said = text(&out.stderr);
    for part in ["0x1111...1111: not found", "answers there", "127.0.0.1:1"] {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
}
