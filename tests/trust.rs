//! Who may enter: lists, levels and policies (F63, F64, D6).

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use oip_host::identity::Address;
use oip_host::trust::{Level, Policy, Refused, Trust};

const HEX: &str = "ab01ab01ab01ab01ab01ab01ab01ab01ab01ab01ab01ab01ab01ab01ab01ab0f";

fn who() -> Address {
    HEX.parse().unwrap()
}

fn other(number: u8) -> Address {
    Address::from_bytes([number; 32])
}

fn host() -> Address {
    Address::from_bytes([0xee; 32])
}

fn put(folder: &Path, list: &str, text: impl AsRef<[u8]>) {
    fs::write(folder.join(list), text).unwrap();
}

fn gate(folder: &Path) -> Trust {
    Trust::open(folder, Policy::Careful, host())
}

#[test]
fn lines_and_whom_they_match() {
    let upper = HEX.to_uppercase();
    for (text, matches) in [
        (format!("0x{HEX}"), true),
        (HEX.to_string(), true),
        (format!("0X{upper}"), true),
        (format!("  0x{HEX}\t"), true),
        (format!("0x{HEX} # a colleague"), true),
        (format!("#0x{HEX}"), false),
        (format!("# a\n\n0x{HEX}\n"), true),
        (format!("# a\r\n0x{HEX}\r\n"), true),
        (format!("\u{feff}0x{HEX}"), true),
        (format!("0x{}", &HEX[..63]), false),
        (HEX[..10].to_string(), false),
        (format!("0x{}*", &HEX[..4]), true),
        (format!("{}*", &HEX[..4]), true),
        (format!("0X{}*", &upper[..4]), true),
        (format!("{}*", &HEX[2..6]), false),
        ("*ab0f".into(), true),
        ("*ab0".into(), false),
        ("0xab*ab0f".into(), true),
        ("*".into(), true),
        ("0x?b*".into(), false),
        ("0x[a]b*".into(), false),
        (String::new(), false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "contacts.txt", &text);
        let level = gate(folder.path()).level(&who()).unwrap();
        assert_eq!(level == Level::Contact, matches, "{text:?}");
    }
}

#[test]
fn the_best_list_counts_and_the_blocklist_beats_all() {
    let folder = tempfile::tempdir().unwrap();
    let trust = gate(folder.path());
    let level = || trust.level(&who()).unwrap();
    assert_eq!(level(), Level::Stranger);
    for (list, reached) in [
        ("contacts.txt", Level::Contact),
        ("whitelist.txt", Level::Whitelist),
        ("admins.txt", Level::Admin),
        ("blocklist.txt", Level::Blocked),
    ] {
        put(folder.path(), list, HEX);
        assert_eq!(level(), reached, "{list}");
    }
    assert!(trust.is_blocked(&who()).unwrap());
    assert_eq!(trust.level(&host()).unwrap(), Level::Admin);
    assert_eq!(trust.level(&other(1)).unwrap(), Level::Stranger);
    put(folder.path(), "blocklist.txt", "*");
    assert_eq!(trust.level(&host()).unwrap(), Level::Blocked);
}

#[test]
fn policies_admit_by_level() {
    let folder = tempfile::tempdir().unwrap();
    for (number, list) in ["contacts", "whitelist", "admins", "blocklist"]
        .iter()
        .enumerate()
    {
        let address = other(u8::try_from(number).unwrap() + 2);
        put(folder.path(), &format!("{list}.txt"), address.to_string());
    }
    // stranger, contact, whitelist, admin, blocked
    let table = [
        (Policy::Open, [true, true, true, true, false]),
        (Policy::Careful, [false, true, true, true, false]),
        (Policy::Strict, [false, false, true, true, false]),
    ];
    for (policy, admitted) in table {
        let trust = Trust::open(folder.path(), policy, host());
        for (number, admitted) in (1..).zip(admitted) {
            let answer = trust.admit(&other(number));
            assert_eq!(answer.is_ok(), admitted, "{policy} {number} {answer:?}");
            if let Err(refused) = answer {
                assert!(refused.to_string().starts_with("forbidden: "), "{refused}");
            }
        }
        let exec = (1..=5).map(|number| trust.may_exec(&other(number)).is_ok());
        assert_eq!(
            exec.collect::<Vec<_>>(),
            [false, true, true, true, false],
            "{policy}"
        );
    }
}

#[test]
fn refusals_are_the_wire_texts() {
    let folder = tempfile::tempdir().unwrap();
    let trust = gate(folder.path());
    let said = trust.admit(&who()).unwrap_err().to_string();
    assert_eq!(
        said,
        format!(
            "forbidden: you are stranger; the operator of this agent admits you by adding \
             0x{HEX} to .co/contacts.txt"
        )
    );
    assert_eq!(
        trust.may_exec(&who()).unwrap_err().to_string(),
        "forbidden: exec requires a contact or admin, you are stranger"
    );
    put(folder.path(), "blocklist.txt", HEX);
    let blocked = trust.admit(&who()).unwrap_err();
    assert_eq!(blocked, Refused::Blocked);
    assert_eq!(blocked.to_string(), "forbidden: blocked");
    assert_eq!(
        trust.may_exec(&who()).unwrap_err().to_string(),
        "forbidden: exec requires a contact or admin, you are blocked"
    );
    put(folder.path(), "blocklist.txt", "");
    put(folder.path(), "contacts.txt", HEX);
    let strict = Trust::open(folder.path(), Policy::Strict, host());
    let said = strict.admit(&who()).unwrap_err().to_string();
    assert!(said.contains("you are contact;") && said.ends_with(".co/whitelist.txt"));
}

#[test]
fn a_list_that_cannot_be_read_admits_nobody() {
    for list in [
        "admins.txt",
        "whitelist.txt",
        "contacts.txt",
        "blocklist.txt",
    ] {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "contacts.txt", HEX);
        let trust = Trust::open(folder.path(), Policy::Open, host());
        trust.admit(&who()).unwrap();
        let file = folder.path().join(list);
        let refused = || {
            let said = trust.admit(&who()).unwrap_err().to_string();
            assert!(said.starts_with("misconfigured: "), "{said}");
            assert!(said.contains(file.to_str().unwrap()), "{said}");
            assert!(trust.admit(&host()).is_err());
            assert!(trust.is_blocked(&who()).is_err());
            let exec = trust.may_exec(&who()).unwrap_err().to_string();
            assert!(exec.starts_with("misconfigured: "), "{exec}");
        };
        put(folder.path(), list, b"\xff\xfe0\0x\0");
        refused();
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        refused();
        fs::remove_dir(&file).unwrap();
        std::os::unix::fs::symlink("/nowhere/at/all", &file).unwrap();
        refused();
        // And it is well again as soon as the file is.
        fs::remove_file(&file).unwrap();
        trust.admit(&who()).unwrap();
    }
}

#[test]
fn every_change_is_seen_at_the_next_question() {
    let folder = tempfile::tempdir().unwrap();
    let trust = gate(folder.path());
    let level = |number| trust.level(&other(number)).unwrap();
    // Same length, same file, faster than a file system's clock ticks.
    for round in 0..300_u32 {
        let number = u8::try_from(1 + round % 2).unwrap();
        put(folder.path(), "contacts.txt", other(number).to_string());
        assert_eq!(level(number), Level::Contact, "{round}");
        assert_eq!(level(3 - number), Level::Stranger, "{round}");
    }
    let file = folder.path().join("contacts.txt");
    fs::write(folder.path().join("new"), other(7).to_string()).unwrap();
    fs::rename(folder.path().join("new"), &file).unwrap();
    assert_eq!(level(7), Level::Contact);
    // The same file, as long, and with the same old time.
    let old = std::time::SystemTime::now() - Duration::from_secs(9_000);
    for number in [8, 9, 8] {
        fs::write(&file, other(number).to_string()).unwrap();
        let opened = fs::File::options().write(true).open(&file).unwrap();
        opened.set_modified(old).unwrap();
        assert_eq!(level(number), Level::Contact);
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(level(8), Level::Stranger);
}

#[test]
fn long_lists_cost_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let numbered = |number: u32| {
        let mut bytes = [9; 32];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        Address::from_bytes(bytes)
    };
    let text: String = (0..100_000)
        .map(|number| format!("{}\n", numbered(number)))
        .collect();
    put(folder.path(), "whitelist.txt", text);
    let trust = gate(folder.path());
    assert_eq!(trust.level(&numbered(99_999)).unwrap(), Level::Whitelist);
    let started = Instant::now();
    for number in 0..10_000 {
        assert_eq!(trust.level(&numbered(number)).unwrap(), Level::Whitelist);
    }
    // Reading or scanning the list each time would take minutes.
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn the_summary_counts_and_names_lines_that_match_nobody() {
    let folder = tempfile::tempdir().unwrap();
    put(
        folder.path(),
        "contacts.txt",
        format!("# mine\n{HEX}\nalice\n0x*\n"),
    );
    put(folder.path(), "admins.txt", other(1).to_string());
    put(folder.path(), "blocklist.txt", "0xdead*\n0xbeef*\n");
    let summary = gate(folder.path()).summary().unwrap();
    assert_eq!(
        summary.to_string(),
        "careful: the holder of this key, 2 in contacts, 0 in whitelist and 1 in admins may enter, 2 in blocklist may not"
    );
    assert_eq!(summary.ignored, [("contacts.txt", 3)]);
    let empty = tempfile::tempdir().unwrap();
    let open = Trust::open(empty.path(), Policy::Open, host());
    assert_eq!(
        open.summary().unwrap().to_string(),
        "open: everybody who can sign may enter"
    );
}
