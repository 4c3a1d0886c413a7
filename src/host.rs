//! A running host: wires the rooms together, accepts connections, and stops without losing a turn.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent::{Agent, Runner, demo};
use crate::config::{Config, Replay};
use crate::connection::{Attachments, Limits, Services};
use crate::console::Console;
use crate::http::{self, Front};
use crate::identity::{Address, Identity};
use crate::session::{Registry, Settings};
use crate::store::{Ledger, LedgerError, Store, StoreError};
use crate::transport::{Admission, Budget};
use crate::trust::Trust;

/// PING goes out this often (fact F51).
const PING_EVERY: Duration = Duration::from_secs(30);
/// How long connections get to write what is left when the host stops.
const GOODBYE: Duration = Duration::from_secs(2);

/// Why a host did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address is taken or not ours.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The folder `.co` cannot be made.
    #[error("{path}: {reason}", path = path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The replay ledger cannot be opened.
    #[error("{0}")]
    Ledger(#[from] LedgerError),
    /// The session store cannot be opened.
    #[error("{0}")]
    Store(#[from] StoreError),
}

/// Collects what a host is made of.
pub struct HostBuilder {
    folder: PathBuf,
    config: Config,
    identity: Option<Identity>,
    agent: Option<Arc<dyn Agent>>,
    console: Console,
}

/// A host that serves until it is stopped or dropped.
pub struct Host {
    address: SocketAddr,
    services: Arc<Services>,
    drain_timeout: Duration,
    stop_accepting: CancellationToken,
    connections: TaskTracker,
    outboxes: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl HostBuilder {
    /// Use this configuration instead of the defaults.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Serve as this identity; a new one otherwise.
    #[must_use]
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Serve this agent; the demo agent otherwise.
    #[must_use]
    pub fn agent(mut self, agent: impl Agent) -> Self {
        self.agent = Some(Arc::new(agent));
        self
    }

    /// Report to this console; to none otherwise.
    #[must_use]
    pub fn console(mut self, console: Console) -> Self {
        self.console = console;
        self
    }

    /// Open the stores, listen, and serve.
    ///
    /// # Errors
    /// [`StartError`] says what could not be opened or listened on.
    pub async fn start(self) -> Result<Host, StartError> {
        let Self {
            folder,
            config,
            identity,
            agent,
            console,
        } = self;
        let wanted = SocketAddr::new(config.bind, config.port);
        let listener = TcpListener::bind(wanted)
            .await
            .map_err(|reason| StartError::Listen {
                address: wanted,
                reason,
            })?;
        let address = listener.local_addr().map_err(|reason| StartError::Listen {
            address: wanted,
            reason,
        })?;
        let co = folder.join(".co");
        std::fs::create_dir_all(&co).map_err(|reason| StartError::Folder {
            path: co.clone(),
            reason,
        })?;
        let identity = identity.unwrap_or_else(Identity::random);
        let ledger = match config.replay {
            Replay::Sqlite => Ledger::open(&co.join("replay.sqlite3"))?,
            Replay::Memory => Ledger::memory(),
        };
        let store = Store::open(&co.join("oip.sqlite3"))?;
        let registry = Arc::new(Registry::new(store, settings(&config, &co)));
        let agent = agent.unwrap_or_else(|| Arc::new(demo::agent(config.permissions.clone())));
        let runner = Arc::new(Runner::new(agent, Arc::clone(&registry), console.clone()));
        let draining = CancellationToken::new();
        let outboxes = CancellationToken::new();
        let services = Arc::new(Services {
            trust: Trust::open(&co, config.trust, identity.address()),
            name: config.name.clone(),
            identity,
            ledger,
            registry,
            runner,
            console,
            limits: Limits {
                first_frame_timeout: config.limits.first_frame_timeout,
                exec_concurrency: config.limits.exec_concurrency as usize,
                attachments: Attachments {
                    max_bytes: config.max_file_size as usize * (1 << 20),
                    max_count: config.max_files_per_request as usize,
                },
                ping_every: PING_EVERY,
            },
            draining,
            stopping: outboxes.clone(),
            sockets: AtomicU64::new(0),
        });
        let admission = Arc::new(Admission::new(
            config.limits.connections_per_second,
            config.limits.unauthenticated_sockets as usize,
        ));
        let connections = TaskTracker::new();
        let front = Arc::new(Front {
            services: Arc::clone(&services),
            admission: Arc::clone(&admission),
            budget: Arc::new(Budget::new(config.limits.unauthenticated_total.get())),
            unauthenticated_frame: config.limits.unauthenticated_frame.get(),
            frame: config.limits.frame.get(),
            connections: connections.clone(),
            trust_name: config.trust.to_string(),
            max_file_size: config.max_file_size,
            max_files_per_request: config.max_files_per_request,
            started: std::time::Instant::now(),
        });
        let stop_accepting = CancellationToken::new();
        let accept = tokio::spawn(http::accept(
            listener,
            front,
            connections.clone(),
            stop_accepting.clone(),
        ));
        let sweep = tokio::spawn(sweep(Arc::clone(&services), admission));
        Ok(Host {
            address,
            services,
            drain_timeout: config.drain_timeout,
            stop_accepting,
            connections,
            outboxes,
            tasks: vec![accept, sweep],
        })
    }
}

impl Host {
    /// A host whose state is kept in `folder`'s `.co`.
    pub fn builder(folder: &Path) -> HostBuilder {
        HostBuilder {
            folder: folder.to_owned(),
            config: Config::default(),
            identity: None,
            agent: None,
            console: Console::silent(),
        }
    }

    /// Where it listens.
    pub const fn socket_address(&self) -> SocketAddr {
        self.address
    }

    /// Its OIP address.
    pub fn address(&self) -> Address {
        self.services.identity.address()
    }

    /// Who may enter.
    pub fn trust(&self) -> &Trust {
        &self.services.trust
    }

    /// Sessions in memory, and open sockets.
    pub fn load(&self) -> (usize, u64) {
        let sockets = self
            .services
            .sockets
            .load(std::sync::atomic::Ordering::Relaxed);
        (self.services.registry.len(), sockets)
    }

    /// Turns that are running.
    pub fn running_turns(&self) -> usize {
        self.services.runner.turns().len()
    }

    /// Stop: no new connections or turns, running turns get the drain timeout and are interrupted
    /// after it, sockets close with 1001, the stores are closed.
    pub async fn stop(mut self) {
        self.services.draining.cancel();
        self.stop_accepting.cancel();
        let turns = self.services.runner.turns();
        turns.close();
        if tokio::time::timeout(self.drain_timeout, turns.wait())
            .await
            .is_err()
        {
            for session in self.services.registry.running() {
                if let Some(running) = session.running() {
                    running.cancel.cancel();
                }
            }
            // The runner's grace is shorter than this.
            if tokio::time::timeout(GOODBYE, turns.wait()).await.is_err() {
                tracing::error!("a turn did not end when it was interrupted");
            }
        }
        self.outboxes.cancel();
        self.connections.close();
        if tokio::time::timeout(GOODBYE, self.connections.wait())
            .await
            .is_err()
        {
            tracing::info!("some peers did not read to the end");
        }
        for task in self.tasks.drain(..) {
            task.abort();
        }
        self.services.ledger.close().await;
        self.services.registry.store().close().await;
        self.services.console.flush(Duration::from_secs(1));
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop_accepting.cancel();
        self.outboxes.cancel();
        for task in &self.tasks {
            task.abort();
        }
    }
}

fn settings(config: &Config, co: &Path) -> Settings {
    Settings {
        session_idle: config.session_idle,
        turn_timeout: config.turn_timeout,
        result_ttl: config.result_ttl,
        turn_log_bytes: config.limits.turn_log_bytes.get(),
        spill_dir: co.to_owned(),
    }
}

/// Every so often let go of what nobody uses.
async fn sweep(services: Arc<Services>, admission: Arc<Admission>) {
    let idle = services.registry.settings().session_idle;
    let every = (idle / 10).clamp(Duration::from_millis(100), Duration::from_secs(30));
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        services.registry.sweep();
        admission.sweep();
    }
}
