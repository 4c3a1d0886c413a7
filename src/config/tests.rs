use serde_json::json;

use super::*;

fn load(text: &str) -> Result<Loaded, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join(".co")).unwrap();
    std::fs::write(folder.path().join(".co/host.yaml"), text).unwrap();
    Config::load(folder.path(), Overrides::default())
}

fn config(text: &str) -> Config {
    load(text).unwrap().config
}

/// The error without the folder, which differs each time.
fn error(text: &str) -> String {
    let said = load(text).unwrap_err().to_string();
    let (folder, rest) = said.split_once("host.yaml").unwrap();
    assert!(folder.contains("/.co"), "{said}");
    assert!(!said.contains('\n'), "{said}");
    rest.to_string()
}

#[test]
fn no_file_and_an_empty_file_are_the_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let loaded = Config::load(folder.path(), Overrides::default()).unwrap();
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.file, None);
    for text in ["", "\n", "# nothing\n", "---\n", "port:\n", "{}"] {
        let loaded = load(text).unwrap();
        assert_eq!(loaded.config, Config::default(), "{text:?}");
        assert!(loaded.file.is_some());
    }
}

#[test]
fn every_key_is_read() {
    let config = config(
        "name: helper\nmodel: demo\ntrust: strict\nport: 9000\nbind: 0.0.0.0\nsummary: Helps\n\
         replay: memory\nresult_ttl: 86400\nsession_idle: 90s\nturn_timeout: 2h\n\
         drain_timeout: 0.5\nmax_file_size: 3\nmax_files_per_request: 4\n\
         permissions: {read: true}\nlimits:\n  connections_per_second: 1\n  \
         unauthenticated_sockets: 2\n  unauthenticated_frame: 1 MiB\n  \
         unauthenticated_total: 2097152\n  frame: 1.5 MiB\n  first_frame_timeout: 500ms\n  \
         turn_log_bytes: 64KB\n  exec_concurrency: 3\n",
    );
    let limits = Limits {
        connections_per_second: 1,
        unauthenticated_sockets: 2,
        unauthenticated_frame: Bytes(1 << 20),
        unauthenticated_total: Bytes(2 << 20),
        frame: Bytes(3 << 19),
        first_frame_timeout: Duration::from_millis(500),
        turn_log_bytes: Bytes(64_000),
        exec_concurrency: 3,
    };
    assert_eq!(config.limits, limits);
    assert_eq!(
        (config.name.as_str(), config.model.as_str()),
        ("helper", "demo")
    );
    assert_eq!((config.trust, config.port), (Policy::Strict, 9000));
    assert_eq!(config.bind, IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    assert_eq!(config.summary.as_deref(), Some("Helps"));
    assert_eq!(config.replay, Replay::Memory);
    let seconds = [
        config.result_ttl,
        config.session_idle,
        config.turn_timeout,
        config.drain_timeout,
    ];
    assert_eq!(
        seconds.map(|time| time.as_millis()),
        [86_400_000, 90_000, 7_200_000, 500]
    );
    assert_eq!((config.max_file_size, config.max_files_per_request), (3, 4));
}

#[test]
fn the_command_line_beats_the_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join(".co")).unwrap();
    std::fs::write(folder.path().join(".co/host.yaml"), "port: 1\nname: file\n").unwrap();
    let overrides = Overrides {
        port: Some(2),
        trust: Some(Policy::Open),
        ..Overrides::default()
    };
    let config = Config::load(folder.path(), overrides).unwrap().config;
    assert_eq!((config.port, config.trust), (2, Policy::Open));
    assert_eq!(config.name, "file");
}

#[test]
fn mistakes_name_the_line_and_the_key_that_was_meant() {
    for (text, said) in [
        (
            "\nprot: 8000\n",
            ", line 2: unknown key `prot`; did you mean `port`?",
        ),
        (
            "Trust: open\n",
            ", line 1: unknown key `Trust`; did you mean `trust`?",
        ),
        ("workerz: 1\n", ", line 1: unknown key `workerz`"),
        (
            "frame: 1\n",
            ", line 1: unknown key `frame`; did you mean `limits: {frame: …}`?",
        ),
        (
            "limits:\n  fram: 1\n",
            ", line 2: unknown key `fram`; did you mean `frame`?",
        ),
        (
            "blacklist: b.txt\n",
            ", line 1: blacklist is not read here: put the addresses in .co/blocklist.txt \
             in `blacklist: b.txt`",
        ),
    ] {
        assert_eq!(error(text), said, "{text}");
    }
}

#[test]
fn wrong_values_are_refused() {
    for (text, line, part) in [
        ("name: x\nport: abc\n", 2, "in `port: abc`"),
        ("port: 70000\n", 1, "in `port: 70000`"),
        ("port: -1\n", 1, "in `port: -1`"),
        ("port: [1]\n", 1, "in `port: [1]`"),
        (
            "trust: everyone\n",
            1,
            "trust is one of open, careful and strict",
        ),
        ("trust: policy.md\n", 1, "trust is one of"),
        ("bind: localhost\n", 1, "IP address"),
        ("replay: redis\n", 1, "replay is one of sqlite and memory"),
        ("result_ttl: soon\n", 1, "such as 500ms"),
        ("result_ttl: -5\n", 1, "such as 500ms"),
        ("result_ttl: 10 parsecs\n", 1, "such as 500ms"),
        ("limits: {frame: 99999999999 GiB}\n", 1, "32 MiB"),
        ("limits: 5\n", 1, "in `limits: 5`"),
        ("name: ''\n", 1, "some text is needed"),
        ("permissions: {a: 5}\n", 1, "with `allowed`"),
        ("permissions: [a]\n", 1, "in `permissions: [a]`"),
        (
            "permissions: {a: {allowed: yes, wehn: {}}}\n",
            1,
            "unknown key `wehn`",
        ),
        (
            "turn_timeout: 0\n",
            1,
            "turn_timeout must be more than nothing",
        ),
        (
            "limits:\n  exec_concurrency: 0\n",
            2,
            "exec_concurrency must be",
        ),
        (
            "limits: {frame: 1 MiB}\n",
            1,
            "frame must be unauthenticated_frame",
        ),
        ("port: 1\nport: 2\n", 2, "`port` is there twice"),
        ("port: {\n", 0, ""),
        ("- a\n", 1, ""),
    ] {
        let said = error(text);
        assert!(said.contains(part), "{text}: {said}");
        if line > 0 {
            assert!(
                said.starts_with(&format!(", line {line}:")),
                "{text}: {said}"
            );
        }
    }
}

#[test]
fn keys_of_other_hosts_are_warnings() {
    let loaded =
        load("workers: 2\nrelay_url: ''\nlisten:\n  feishu: {mention_only: true}\n").unwrap();
    let said = loaded.warnings.join("\n");
    for key in ["workers", "relay_url", "listen"] {
        assert!(said.contains(&format!("`{key}` has no effect: ")), "{said}");
    }
    assert_eq!(loaded.warnings.len(), 3);
    assert_eq!(loaded.config, Config::default());
}

#[test]
fn the_example_sets_nothing_and_shows_the_defaults() {
    assert_eq!(config(&example()), Config::default());
    let uncommented: String = example()
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') || rest.starts_with("  ") => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    for key in Config::KEYS.iter().chain(Limits::KEYS) {
        assert!(uncommented.contains(&format!("{key}:")), "{key}");
    }
    assert_eq!(config(&uncommented), Config::default());
    assert!(example().lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn the_documentation_has_every_key() {
    let page = include_str!("../../docs/configuration.md");
    assert!(
        page.contains(&reference()),
        "it should be:\n{}",
        reference()
    );
}

#[test]
fn permissions_decide_by_name_and_arguments() {
    let text = "permissions:\n  read: {allowed: true, source: safe, expires: {type: never}}\n  \
        write: {allowed: true, match: {file_path: '*.md'}}\n  \
        write_any: {allowed: true, when: {path: 'docs/*', mode: 'a*'}}\n  rm: false\n  \
        old: {allowed: true, expires: {type: session_end}}\n  vague: {reason: none}\n  \
        bash: true\n  'Bash(ls *)': {allowed: true}\n  'Bash(*rm -rf*)': false\n  \
        count: {allowed: true, when: {n: '4*'}}\n";
    let permissions = config(text).permissions;
    let check = |tool: &str, args: serde_json::Value| {
        let allowed = permissions.check(tool, args.as_object().unwrap());
        allowed.map_err(|denied| denied.to_string())
    };
    let not_listed = |tool| Err(format!("'{tool}' is not in the permission whitelist"));
    assert_eq!(check("echo_tool", json!({"text": "x"})), Ok(()));
    assert_eq!(check("read", json!({})), Ok(()));
    assert_eq!(check("READ", json!({})), not_listed("READ"));
    assert_eq!(check("write", json!({"file_path": "a.md"})), Ok(()));
    assert_eq!(
        check("write", json!({"file_path": "a.rs"})),
        not_listed("write")
    );
    assert_eq!(check("write", json!({})), not_listed("write"));
    assert_eq!(
        check("write_any", json!({"path": "docs/x", "mode": "append"})),
        Ok(())
    );
    assert_eq!(
        check("write_any", json!({"path": "docs/x", "mode": "w"})),
        not_listed("write_any")
    );
    assert_eq!(
        check("rm", json!({})),
        Err("'rm' is forbidden by the permission 'rm'".into())
    );
    assert_eq!(check("old", json!({})), not_listed("old"));
    assert_eq!(check("vague", json!({})), not_listed("vague"));
    assert_eq!(check("count", json!({"n": 42})), Ok(()));
    assert_eq!(check("bash", json!({"command": "ls"})), Ok(()));
    assert!(check("bash", json!({"command": "ls; rm -rf /"})).is_err());
    let shell_only = config("permissions: {'Bash(ls *)': true}\n").permissions;
    let ls = json!({"command": "ls -l"});
    assert!(shell_only.check("bash", ls.as_object().unwrap()).is_err());
}

#[test]
fn the_demo_tool_can_be_forbidden() {
    let permissions = config("permissions: {echo_tool: false}\n").permissions;
    assert!(
        permissions
            .check("echo_tool", &serde_json::Map::new())
            .is_err()
    );
}
