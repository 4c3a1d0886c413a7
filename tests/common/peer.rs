//! The Python environment with the reference package.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A Python with connectonion 1.9.2, as `tests/peers` makes and prints it.
pub fn python() -> PathBuf {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(set_up).clone()
}

fn set_up() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers");
    let made = Command::new(&script).output().unwrap();
    assert!(
        made.status.success(),
        "{}: {}",
        script.display(),
        String::from_utf8_lossy(&made.stderr)
    );
    let printed = String::from_utf8(made.stdout).unwrap();
    PathBuf::from(printed.lines().last().unwrap().trim())
}

/// What `script` prints when the peers' Python runs it with `args`, in an empty home.
pub fn run_python(script: &str, args: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    let ran = Command::new(python())
        .args(["-c", script])
        .args(args)
        .env("HOME", home.path())
        .current_dir(home.path())
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    String::from_utf8(ran.stdout).unwrap()
}
