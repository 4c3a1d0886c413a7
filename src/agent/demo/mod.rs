//! The embedded demo agent: no key, no network, every feature of the protocol.
//!
//! Only its model is scripted; it goes through the ordinary loop and tools. Its words are fixed,
//! because conformance scripts talk to it.

mod model;
mod tools;

use crate::config::Permissions;

use super::{Assistant, Toolbox};

pub use model::Scripted;

/// The demo agent's name unless another is configured.
pub const NAME: &str = "stub-agent";

/// The demo agent; EXEC may run what `permissions` allow.
pub fn agent(permissions: Permissions) -> Assistant {
    let mut tools = Toolbox::default();
    tools.add(tools::Echo);
    tools.add(tools::SlowStep);
    tools.add(tools::AlwaysFails);
    Assistant::new(Scripted, tools, permissions)
}
