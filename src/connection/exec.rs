//! EXEC: one tool, no model, no session (fact F53, decision D6).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;

use crate::agent::ToolError;
use crate::console::Event;
use crate::wire::inbound::Exec;
use crate::wire::json::Object;
use crate::wire::outbound::exec_result;

use super::Connection;

impl Connection {
    /// Run the tool and answer with one EXEC_RESULT. A slow tool does not hold up what follows it;
    /// only when as many run as may, the next one waits, and with it the reading of the socket.
    pub(super) async fn exec(&self, fields: &Object<'_>) {
        let exec = Exec::read(fields);
        let refuse = |tool: Option<&str>, why: &str| {
            self.services.console.emit(Event::Refused {
                what: "EXEC",
                reason: why,
            });
            self.outbox
                .send(exec_result(&exec.exec_id, tool, Err(why), None));
        };
        let Some(tool) = exec.tool.as_deref() else {
            return refuse(None, "tool required");
        };
        let Some(caller) = self.caller() else {
            return refuse(Some(tool), "authenticate first (send CONNECT)");
        };
        if let Err(refused) = self.services.trust.may_exec(&caller) {
            return refuse(Some(tool), &refused.to_string());
        }
        let agent = Arc::clone(self.services.runner.agent());
        if let Err(why) =
            agent.may_exec(tool, exec.args.as_ref().unwrap_or(&serde_json::Map::new()))
        {
            return refuse(Some(tool), &format!("blocked: {why}"));
        }
        let Some(args) = exec.args.clone() else {
            return refuse(Some(tool), "args must be an object");
        };
        self.services.console.emit(Event::Exec {
            identity: caller,
            tool,
        });
        let Ok(permit) = Arc::clone(&self.exec).acquire_owned().await else {
            return refuse(Some(tool), "the connection is closing");
        };
        let started = Instant::now();
        let (tool, outbox) = (tool.to_owned(), Arc::clone(&self.outbox));
        let exec_id = exec.exec_id;
        let mut run = Box::pin(async move {
            let result = AssertUnwindSafe(agent.exec(&tool, args))
                .catch_unwind()
                .await
                .unwrap_or_else(|_| Err(ToolError::Failed("the tool panicked".into())));
            let took = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            let failed = result.as_ref().err().map(ToString::to_string);
            let outcome = match (&result, &failed) {
                (Ok(text), _) => Ok(text.as_str()),
                (_, failed) => Err(failed.as_deref().unwrap_or("the tool failed")),
            };
            outbox.send(exec_result(&exec_id, Some(&tool), outcome, Some(took)));
            drop(permit);
        });
        // Most tools answer at once: a task is only worth its cost for one that does not.
        if futures_util::poll!(&mut run).is_pending() {
            let gone = self.gone.clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = gone.cancelled() => {}
                    () = run => {}
                }
            });
        }
    }
}
