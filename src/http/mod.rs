//! HTTP beside the socket: the routes, and the upgrade that starts a connection.

mod accept;
mod routes;
mod upgrade;

use std::sync::Arc;
use std::time::Instant;

use tokio_util::task::TaskTracker;

pub(crate) use accept::accept;

use crate::connection::Services;
use crate::transport::{Admission, Budget};

/// What the HTTP side needs.
pub(crate) struct Front {
    pub(crate) services: Arc<Services>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) unauthenticated_frame: usize,
    pub(crate) frame: usize,
    pub(crate) connections: TaskTracker,
    pub(crate) trust_name: String,
    pub(crate) max_file_size: u32,
    pub(crate) max_files_per_request: u32,
    pub(crate) started: Instant,
}
