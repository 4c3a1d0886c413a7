//! A host in a folder of its own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use oip_host::agent::Agent;
use oip_host::config::Config;
use oip_host::host::{Host, HostBuilder};
use oip_host::identity::Address;
use oip_host::trust::Policy;
use tempfile::TempDir;

use super::Person;

/// A running host, open to everybody, on a free port of the loopback interface.
pub struct TestHost {
    pub host: Host,
    pub folder: Arc<TempDir>,
    config: Config,
    person: Person,
}

impl TestHost {
    /// With the demo agent and the defaults.
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// With the demo agent and a configuration.
    pub async fn with(configure: impl FnOnce(&mut Config)) -> Self {
        let mut config = defaults();
        configure(&mut config);
        let folder = Arc::new(tempfile::tempdir().unwrap());
        Self::open(folder, config, Person::new(), |builder| builder).await
    }

    /// With an agent of one's own.
    pub async fn serving(agent: impl Agent, configure: impl FnOnce(&mut Config)) -> Self {
        let mut config = defaults();
        configure(&mut config);
        let folder = Arc::new(tempfile::tempdir().unwrap());
        Self::open(folder, config, Person::new(), |builder| {
            builder.agent(agent)
        })
        .await
    }

    async fn open(
        folder: Arc<TempDir>,
        config: Config,
        person: Person,
        agent: impl FnOnce(HostBuilder) -> HostBuilder,
    ) -> Self {
        let builder = Host::builder(folder.path())
            .config(config.clone())
            .identity(person.identity());
        let host = agent(builder).start().await.unwrap();
        Self {
            host,
            folder,
            config,
            person,
        }
    }

    /// Stop it and start another one, with the demo agent, on the same folder.
    pub async fn restart(self) -> Self {
        self.host.stop().await;
        Self::open(self.folder, self.config, self.person, |builder| builder).await
    }

    pub fn address(&self) -> Address {
        self.host.address()
    }

    pub fn socket(&self) -> SocketAddr {
        self.host.socket_address()
    }

    pub fn running_turns(&self) -> usize {
        self.host.running_turns()
    }

    /// A file in `.co`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(".co").join(name)
    }

    /// Write one of the list files.
    pub fn list(&self, name: &str, lines: &str) {
        std::fs::write(self.file(name), lines).unwrap();
    }
}

/// What tests run with unless they say otherwise.
pub fn defaults() -> Config {
    Config {
        trust: Policy::Open,
        port: 0,
        bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
        ..Config::default()
    }
}
