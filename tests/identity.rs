//! Keys on disk, shared with connectonion's `address` module in both directions (F12).

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use oip_host::identity::keys::{self, KeyError, Place};
use oip_host::identity::{Address, Phrase};

use crate::common::run_python;

const ABOUT: &str = "abandon abandon abandon abandon abandon abandon abandon abandon abandon \
                     abandon abandon about";
const ABOUT_ADDRESS: &str = "0x54ff7e165926bca30e8b1535f22c053a0e0e2ca6d5a445a149bde23d90c6ee1e";
const YELLOW: &str = "legal winner thank year wave sausage worth useful legal winner thank yellow";

fn mode(file: &Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_reference_loads_what_we_write() {
    let project = tempfile::tempdir().unwrap();
    let co_dir = project.path().join(".co");
    let made = keys::generate(&co_dir).unwrap();
    let said = run_python(
        "import sys, pathlib\n\
         from connectonion import address\n\
         keys = address.load(pathlib.Path(sys.argv[1]))\n\
         print(keys['address'], keys['legacy_derivation'], keys['seed_phrase'])\n\
         print(address.recover(keys['seed_phrase'])['address'])\n\
         print(address.sign(keys, b'hello').hex())",
        &[co_dir.to_str().unwrap()],
    );
    let address = made.identity.address();
    let phrase = made.phrase.as_ref().unwrap().reveal();
    let signature = hex::encode(made.identity.sign(b"hello"));
    assert_eq!(
        said,
        format!("{address} False {phrase}\n{address}\n{signature}\n")
    );
}

#[test]
fn we_load_what_the_reference_writes() {
    let project = tempfile::tempdir().unwrap();
    let co_dir = project.path().join(".co");
    let said = run_python(
        "import sys, pathlib\n\
         from connectonion import address\n\
         keys = address.generate()\n\
         address.save(keys, pathlib.Path(sys.argv[1]))\n\
         print(keys['address'])\n\
         print(keys['seed_phrase'])",
        &[co_dir.to_str().unwrap()],
    );
    let (address, phrase) = said.trim().split_once('\n').unwrap();
    let loaded = keys::load(&co_dir).unwrap().unwrap();
    assert_eq!(loaded.identity.address().to_string(), address);
    assert_eq!(loaded.phrase.unwrap().reveal(), phrase);
    assert!(!loaded.legacy_phrase);
    let elsewhere = tempfile::tempdir().unwrap();
    let recovered = keys::recover(phrase, elsewhere.path(), false).unwrap();
    assert_eq!(recovered.identity.address().to_string(), address);
}

#[test]
fn new_keys_are_private_and_complete() {
    let project = tempfile::tempdir().unwrap();
    let co_dir = project.path().join("deep/.co");
    let made = keys::generate(&co_dir).unwrap();
    let folder = co_dir.join("keys");
    assert_eq!(
        names(&folder),
        ["DO_NOT_SHARE", "agent.key", "recovery.txt"]
    );
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join("agent.key")), 0o600);
    assert_eq!(mode(&folder.join("recovery.txt")), 0o600);
    assert_eq!(fs::metadata(folder.join("agent.key")).unwrap().len(), 32);
    let loaded = keys::load(&co_dir).unwrap().unwrap();
    assert_eq!(loaded.identity.address(), made.identity.address());
    assert_eq!(
        loaded.phrase.as_ref().unwrap().reveal(),
        made.phrase.as_ref().unwrap().reveal()
    );
    for word in made.phrase.as_ref().unwrap().reveal().split(' ') {
        assert!(!format!("{made:?}").contains(&format!("{word} ")));
    }
}

#[test]
fn nothing_is_overwritten() {
    let project = tempfile::tempdir().unwrap();
    let made = keys::generate(project.path()).unwrap();
    assert!(matches!(
        keys::generate(project.path()),
        Err(KeyError::Exists { .. })
    ));
    let key = project.path().join("keys/agent.key");
    fs::remove_file(&key).unwrap();
    // The words alone are still somebody's identity.
    let Err(KeyError::Exists { file }) = keys::generate(project.path()) else {
        panic!("the words were overwritten");
    };
    assert!(file.ends_with("keys/recovery.txt"));
    fs::remove_file(file).unwrap();
    fs::write(&key, b"other").unwrap();
    let Err(KeyError::Exists { file }) = keys::generate(project.path()) else {
        panic!("the key was overwritten");
    };
    assert_eq!(file, key);
    assert_eq!(fs::read(&key).unwrap(), b"other");
    drop(made);
}

#[test]
fn a_key_that_cannot_be_read_is_an_error_that_names_it() {
    let project = tempfile::tempdir().unwrap();
    let co_dir = project.path().join(".co");
    let key = co_dir.join("keys/agent.key");
    assert!(keys::load(&co_dir).unwrap().is_none());
    fs::create_dir_all(key.parent().unwrap()).unwrap();
    assert!(keys::load(&co_dir).unwrap().is_none());
    let home = tempfile::tempdir().unwrap();
    keys::generate(&home.path().join(".co")).unwrap();
    for bytes in [0, 31, 33, 64, 5_000] {
        fs::write(&key, vec![7; bytes]).unwrap();
        // Neither the home's key nor a new one stands in for a broken one.
        let error = keys::for_project(project.path(), Some(home.path())).unwrap_err();
        let said = error.to_string();
        assert!(said.contains(key.to_str().unwrap()), "{said}");
        assert!(said.contains(&format!("{bytes} bytes")), "{said}");
    }
    fs::remove_file(&key).unwrap();
    symlink("/nowhere/at/all", &key).unwrap();
    assert!(matches!(keys::load(&co_dir), Err(KeyError::Read { .. })));
    fs::remove_file(&key).unwrap();
    fs::create_dir(&key).unwrap();
    assert!(matches!(keys::load(&co_dir), Err(KeyError::Read { .. })));
}

#[test]
fn words_of_another_key_are_reported() {
    let project = tempfile::tempdir().unwrap();
    let folder = project.path().join("keys");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("agent.key"), [7; 32]).unwrap();
    let loaded = keys::load(project.path()).unwrap().unwrap();
    assert!(loaded.phrase.is_none() && !loaded.legacy_phrase);
    fs::write(folder.join("recovery.txt"), format!("{ABOUT}\n")).unwrap();
    let loaded = keys::load(project.path()).unwrap().unwrap();
    assert_eq!(loaded.phrase.unwrap().reveal(), ABOUT);
    assert!(loaded.legacy_phrase);
    assert_ne!(loaded.identity.address().to_string(), ABOUT_ADDRESS);
    fs::write(folder.join("recovery.txt"), "in the safe").unwrap();
    let loaded = keys::load(project.path()).unwrap().unwrap();
    assert!(loaded.phrase.is_none() && loaded.legacy_phrase);
    fs::write(folder.join("recovery.txt"), [0xff, 0xfe]).unwrap();
    let said = keys::load(project.path()).unwrap_err().to_string();
    assert!(said.contains("recovery.txt: not UTF-8"), "{said}");
}

#[test]
fn recovering_replaces_another_key_only_by_force() {
    let project = tempfile::tempdir().unwrap();
    let folder = project.path().join("keys");
    let first = keys::recover(
        &format!(" {}\n", ABOUT.to_uppercase()),
        project.path(),
        false,
    );
    assert_eq!(first.unwrap().identity.address().to_string(), ABOUT_ADDRESS);
    // The same words again change nothing.
    keys::recover(ABOUT, project.path(), false).unwrap();
    assert_eq!(names(&folder).len(), 3);
    let old = fs::read(folder.join("agent.key")).unwrap();
    let Err(KeyError::Other { address, .. }) = keys::recover(YELLOW, project.path(), false) else {
        panic!("another key was replaced");
    };
    assert_eq!(address.unwrap().to_string(), ABOUT_ADDRESS);
    assert_eq!(fs::read(folder.join("agent.key")).unwrap(), old);
    let second = keys::recover(YELLOW, project.path(), true).unwrap();
    let loaded = keys::load(project.path()).unwrap().unwrap();
    assert_eq!(loaded.identity.address(), second.identity.address());
    assert!(!loaded.legacy_phrase);
    let kept: Vec<String> = names(&folder)
        .into_iter()
        .filter(|name| name.contains(".old-"))
        .collect();
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert_eq!(fs::read(folder.join(&kept[0])).unwrap(), old);
    assert_eq!(fs::read_to_string(folder.join(&kept[1])).unwrap(), ABOUT);
    assert_eq!(mode(&folder.join("agent.key")), 0o600);
    // Twice within a second keeps both.
    keys::recover(ABOUT, project.path(), true).unwrap();
    let kept = names(&folder)
        .into_iter()
        .filter(|name| name.contains(".old-"));
    assert_eq!(kept.count(), 4);
}

#[test]
fn recovering_repairs_a_broken_key_and_missing_words() {
    let project = tempfile::tempdir().unwrap();
    let folder = project.path().join("keys");
    keys::recover(ABOUT, project.path(), false).unwrap();
    fs::remove_file(folder.join("recovery.txt")).unwrap();
    keys::recover(ABOUT, project.path(), false).unwrap();
    assert_eq!(
        fs::read_to_string(folder.join("recovery.txt")).unwrap(),
        ABOUT
    );
    fs::remove_file(folder.join("agent.key")).unwrap();
    keys::recover(YELLOW, project.path(), false).unwrap_err();
    keys::recover(ABOUT, project.path(), false).unwrap();
    fs::write(folder.join("agent.key"), b"broken").unwrap();
    keys::recover(ABOUT, project.path(), false).unwrap_err();
    keys::recover(ABOUT, project.path(), true).unwrap();
    assert_eq!(
        keys::load(project.path())
            .unwrap()
            .unwrap()
            .identity
            .address(),
        ABOUT_ADDRESS.parse().unwrap()
    );
}

#[test]
fn a_project_has_its_own_keys_or_those_of_the_home_or_new_ones() {
    let (project, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    assert!(
        keys::find(project.path(), Some(home.path()))
            .unwrap()
            .is_none()
    );
    let mine = keys::generate(&home.path().join(".co")).unwrap();
    let found = keys::for_project(project.path(), Some(home.path())).unwrap();
    assert_eq!(found.place, Place::Home);
    assert_eq!(found.keys.identity.address(), mine.identity.address());
    assert!(!project.path().join(".co").exists());
    let made = keys::for_project(project.path(), None).unwrap();
    assert_eq!(made.place, Place::Generated);
    let again = keys::for_project(project.path(), Some(home.path())).unwrap();
    assert_eq!(again.place, Place::Project);
    assert_eq!(again.keys.identity.address(), made.keys.identity.address());
}

#[test]
fn processes_that_start_together_become_one_identity() {
    let project = tempfile::tempdir().unwrap();
    let start = std::sync::Barrier::new(8);
    let addresses: Vec<Address> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    let located = keys::for_project(project.path(), None).unwrap();
                    located.keys.identity.address()
                })
            })
            .collect();
        started.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(addresses.iter().all(|address| *address == addresses[0]));
    let loaded = keys::load(&project.path().join(".co")).unwrap().unwrap();
    assert_eq!(loaded.identity.address(), addresses[0]);
    let phrase: Phrase = loaded.phrase.unwrap();
    assert_eq!(phrase.identity().address(), addresses[0]);
}
