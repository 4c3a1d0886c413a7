//! The reference implementation, for tests that talk to it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A Python interpreter that can import the reference package.
///
/// Runs `tests/peers` once per process; the first run on a machine installs the package, which takes about a
/// minute. Panics with what `tests/peers` said if it fails.
pub fn python() -> PathBuf {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON
        .get_or_init(|| {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers");
            let done = Command::new(&script).output().unwrap_or_else(|e| panic!("{}: {e}", script.display()));
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr).trim());
            PathBuf::from(String::from_utf8_lossy(&done.stdout).trim())
        })
        .clone()
}
