//! The accept loop.

use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Front, routes};

/// How long a client may take to send a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// hyper's smallest buffer: idle sockets keep theirs, and requests here are short.
const HTTP_BUFFER: usize = 8 << 10;

/// Accept connections until `stop`.
pub(crate) async fn accept(
    listener: TcpListener,
    front: Arc<Front>,
    connections: TaskTracker,
    stop: CancellationToken,
) {
    let router = routes::router(front);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HTTP_BUFFER);
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(failed) => {
                // Out of file descriptors, most likely: it passes when somebody leaves.
                tracing::warn!(%failed, "a connection cannot be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        // Frames are flushed when they are complete; waiting for more only adds latency.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(routes::From {
            router: router.clone(),
            from,
        });
        let connection = http
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let stop = stop.clone();
        connections.spawn(async move {
            tokio::pin!(connection);
            tokio::select! {
                _ = connection.as_mut() => {}
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                }
            }
        });
    }
}
