//! `oip keys` and `oip init`, as the program.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ABOUT: &str = "abandon abandon abandon abandon abandon abandon abandon abandon abandon \
                     abandon abandon about";
const ABOUT_ADDRESS: &str = "0x54ff7e165926bca30e8b1535f22c053a0e0e2ca6d5a445a149bde23d90c6ee1e";
const YELLOW: &str = "legal winner thank year wave sausage worth useful legal winner thank yellow";

/// A person's home and a project in it.
struct Desk {
    root: tempfile::TempDir,
}

struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Desk {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("home")).unwrap();
        std::fs::create_dir_all(root.path().join("project/below")).unwrap();
        Self { root }
    }

    fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    fn project(&self) -> PathBuf {
        self.root.path().join("project")
    }

    fn oip(&self, args: &[&str]) -> Ran {
        self.oip_in(&self.project(), args, "")
    }

    fn oip_in(&self, folder: &Path, args: &[&str], input: &str) -> Ran {
        let mut child = Command::new(env!("CARGO_BIN_EXE_oip"))
            .args(args)
            .current_dir(folder)
            .env("HOME", self.home())
            .env_remove("PORT")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that reads nothing may be gone already.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let ran = child.wait_with_output().unwrap();
        Ran {
            code: ran.status.code().unwrap(),
            out: String::from_utf8(ran.stdout).unwrap(),
            err: String::from_utf8(ran.stderr).unwrap(),
        }
    }

    fn recover(&self, phrase: &str, args: &[&str]) -> Ran {
        self.oip_in(
            &self.project(),
            &[&["keys", "recover"], args].concat(),
            phrase,
        )
    }
}

#[test]
fn init_makes_what_is_missing_and_says_so() {
    let desk = Desk::new();
    let first = desk.oip(&["init"]);
    assert_eq!((first.code, first.err.as_str()), (0, ""), "{}", first.out);
    assert!(first.out.contains("wrote "), "{}", first.out);
    assert!(first.out.contains("(new; keep a copy"), "{}", first.out);
    assert!(first.out.ends_with("Next: oip serve\n"), "{}", first.out);
    let yaml = desk.project().join(".co/host.yaml");
    let text = std::fs::read_to_string(&yaml).unwrap();
    assert!(text.contains("#port: 8000"), "{text}");
    let loaded = oip_host::config::Config::load(&desk.project(), Default::default()).unwrap();
    assert_eq!(loaded.config, oip_host::config::Config::default());
    std::fs::write(&yaml, "port: 9\n").unwrap();
    let key = std::fs::read(desk.project().join(".co/keys/agent.key")).unwrap();
    let second = desk.oip(&["init"]);
    assert_eq!(second.code, 0);
    assert!(second.out.contains("kept "), "{}", second.out);
    assert_eq!(std::fs::read_to_string(&yaml).unwrap(), "port: 9\n");
    assert_eq!(
        std::fs::read(desk.project().join(".co/keys/agent.key")).unwrap(),
        key
    );
}

#[test]
fn init_takes_the_keys_of_the_home() {
    let desk = Desk::new();
    oip_host::identity::keys::recover(ABOUT, &desk.home().join(".co"), false).unwrap();
    let target = desk.root.path().join("elsewhere");
    let ran = desk.oip(&["init", "--dir", target.to_str().unwrap()]);
    assert!(
        ran.out.contains("this project has none of its own"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains(ABOUT_ADDRESS), "{}", ran.out);
    assert!(
        ran.out
            .contains(&format!("oip serve --dir {}", target.display()))
    );
    assert!(!target.join(".co/keys").exists());
}

#[test]
fn show_hides_the_words_unless_asked() {
    let desk = Desk::new();
    let none = desk.oip(&["keys", "show"]);
    assert_eq!((none.code, none.out.as_str()), (1, ""));
    assert!(none.err.contains("oip init"), "{}", none.err);
    assert_eq!(none.err.lines().count(), 1);
    assert_eq!(desk.recover(ABOUT, &[]).code, 0);
    let shown = desk.oip(&["keys", "show"]);
    assert_eq!(shown.code, 0);
    assert!(shown.out.contains(ABOUT_ADDRESS) && shown.out.contains("0x54ff...ee1e"));
    assert!(shown.out.contains(".co/keys"));
    assert!(!shown.out.contains("abandon"), "{}", shown.out);
    assert!(desk.oip(&["keys", "show", "--reveal"]).out.contains(ABOUT));
    let json = |args: &[&str]| -> serde_json::Value {
        serde_json::from_str(&desk.oip(&[&["keys", "show", "--json"], args].concat()).out).unwrap()
    };
    let hidden = json(&[]);
    assert_eq!(hidden["address"], ABOUT_ADDRESS);
    assert_eq!(hidden["short_address"], "0x54ff...ee1e");
    assert_eq!(hidden["place"], "project");
    assert!(hidden.get("phrase").is_none());
    assert_eq!(json(&["--reveal"])["phrase"], ABOUT);
    let below = desk.oip_in(&desk.project().join("below"), &["keys", "show"], "");
    assert!(below.out.contains(ABOUT_ADDRESS), "{}", below.out);
}

#[test]
fn recover_reads_the_words_from_standard_input() {
    let desk = Desk::new();
    let bad = desk.recover("one two three\n", &[]);
    assert_eq!((bad.code, bad.out.as_str()), (1, ""));
    assert!(bad.err.contains("12 words"), "{}", bad.err);
    assert!(!desk.project().join(".co").exists());
    let done = desk.recover(&format!("{ABOUT}\n"), &[]);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.out.contains(ABOUT_ADDRESS), "{}", done.out);
    let refused = desk.recover(YELLOW, &[]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("--force"), "{}", refused.err);
    assert!(refused.err.contains("agent.key"), "{}", refused.err);
    assert!(!refused.err.contains("legal"), "{}", refused.err);
    assert_eq!(desk.recover(YELLOW, &["--force"]).code, 0);
    assert_eq!(desk.recover("", &["word", "word"]).code, 2);
}

#[test]
fn words_of_another_key_are_warned_about() {
    let desk = Desk::new();
    desk.recover(ABOUT, &[]);
    std::fs::write(desk.project().join(".co/keys/recovery.txt"), YELLOW).unwrap();
    let shown = desk.oip(&["keys", "show"]);
    assert_eq!(shown.code, 0);
    assert!(shown.err.contains("do not make this key"), "{}", shown.err);
}

#[test]
fn wrong_usage_is_exit_code_two() {
    let desk = Desk::new();
    for args in [
        &["--no-such-flag"][..],
        &["nonsense"],
        &["serve", "--trust", "everyone"],
        &["serve", "--port", "70000"],
        &["keys"],
    ] {
        let ran = desk.oip(args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}");
        assert!(!ran.err.is_empty());
    }
    let version = desk.oip(&["--version"]);
    assert_eq!(version.out, format!("oip {}\n", env!("CARGO_PKG_VERSION")));
}
