//! The settings of connectonion's own projects are taken.

use oip_host::config::{Config, Overrides};
use oip_host::trust::Policy;

use crate::common::run_python;

#[test]
fn a_project_of_the_reference_loads() {
    let template = run_python(
        "import connectonion, pathlib\n\
         print((pathlib.Path(connectonion.__file__).parent / 'network/host/host.yaml').read_text())",
        &[],
    );
    let project = tempfile::tempdir().unwrap();
    std::fs::create_dir(project.path().join(".co")).unwrap();
    std::fs::write(project.path().join(".co/host.yaml"), template).unwrap();
    let loaded = Config::load(project.path(), Overrides::default()).unwrap();
    assert_eq!(loaded.config.trust, Policy::Careful);
    assert_eq!(loaded.config.port, 8000);
    assert_eq!(loaded.config.result_ttl.as_secs(), 86_400);
    let permissions = &loaded.config.permissions;
    assert!(permissions.entries().count() > 50);
    for tool in ["read_file", "echo_tool"] {
        assert_eq!(permissions.check(tool, &serde_json::Map::new()), Ok(()));
    }
    assert_eq!(loaded.warnings.len(), 3, "{:?}", loaded.warnings);
}
