//! From an HTTP request to a WebSocket connection.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;

use crate::connection::{self, Peer};
use crate::transport::{Meter, accept_key, websocket};

use super::Front;
use super::routes::error;

/// Answer a request to `/ws`: switch protocols and serve the connection, or say why not.
pub(super) async fn upgrade(
    front: Arc<Front>,
    from: SocketAddr,
    request: Request<Body>,
) -> Response<Body> {
    let Some(key) = websocket_key(&request) else {
        return error(StatusCode::NOT_FOUND, "not found");
    };
    let place = match front.admission.enter(from.ip()) {
        Ok(place) => place,
        Err(why) => return error(StatusCode::TOO_MANY_REQUESTS, &why),
    };
    let accept = accept_key(&key);
    let connections = front.connections.clone();
    connections.spawn(async move {
        let Ok(upgraded) = hyper::upgrade::on(request).await else {
            return;
        };
        let meter = Arc::new(Meter::new(
            front.unauthenticated_frame,
            Arc::clone(&front.budget),
        ));
        let (source, sink) = websocket(TokioIo::new(upgraded), meter, front.frame).await;
        let peer = Peer {
            name: from.ip().to_canonical().to_string(),
            transport: "direct",
        };
        let services = Arc::clone(&front.services);
        drop(front);
        connection::serve(services, source, sink, peer, place).await;
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}

/// The key of a WebSocket handshake; `None` if the request is not one.
fn websocket_key(request: &Request<Body>) -> Option<Vec<u8>> {
    let headers = request.headers();
    let has = |name, wanted: &str| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
            .is_some_and(|value| {
                value
                    .split(',')
                    .any(|part| part.trim().eq_ignore_ascii_case(wanted))
            })
    };
    let wanted = request.method() == Method::GET
        && has(header::CONNECTION, "upgrade")
        && has(header::UPGRADE, "websocket")
        && has(header::SEC_WEBSOCKET_VERSION, "13");
    let key = headers.get(header::SEC_WEBSOCKET_KEY)?;
    wanted.then(|| key.as_bytes().to_vec())
}
