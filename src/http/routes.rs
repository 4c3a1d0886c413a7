//! `/`, `/health`, `/info` and the answers to everything else (facts F54, F55, F72).

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use axum::response::Html;
use axum::routing::{any, get};
use hyper::body::Incoming;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use tower::Service;
use tower_http::set_header::SetResponseHeaderLayer;

use crate::identity::Address;
use crate::wire::outbound::{PROTOCOL, embedded, json as to_json};

use super::{Front, upgrade::upgrade};

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
struct Remote(SocketAddr);

pub(super) fn router(front: Arc<Front>) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/health", get(health))
        .route("/info", get(info))
        .route("/ws", any(ws))
        // Clients form this one from an endpoint that ends in a slash (fact F55).
        .route("//ws", any(ws))
        .fallback(not_found)
        .method_not_allowed_fallback(not_found)
        .layer(axum::middleware::from_fn(preflight))
        .layer(always(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"))
        .layer(always(header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, OPTIONS"))
        .layer(always(
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "authorization, content-type, x-co-from, x-co-signature, x-co-timestamp, x-co-to, x-co-request-id",
        ))
        .with_state(front)
}

/// The router for one connection: requests carry where they come from.
#[derive(Clone)]
pub(super) struct From {
    pub(super) router: Router,
    pub(super) from: SocketAddr,
}

impl Service<Request<Incoming>> for From {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Remote(self.from));
        Box::pin(self.router.call(request))
    }
}

async fn ws(
    State(front): State<Arc<Front>>,
    Extension(Remote(from)): Extension<Remote>,
    request: Request<Body>,
) -> Response<Body> {
    upgrade(front, from, request).await
}

/// A header on every answer. Without CORS React goes to the public relay and says nothing (fact F54).
fn always(name: HeaderName, value: &'static str) -> SetResponseHeaderLayer<HeaderValue> {
    SetResponseHeaderLayer::overriding(name, HeaderValue::from_static(value))
}

/// OPTIONS is answered for every path.
async fn preflight(request: Request<Body>, next: axum::middleware::Next) -> Response<Body> {
    if request.method() != Method::OPTIONS {
        return next.run(request).await;
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// A page for a person who opens the host in a browser.
async fn index(State(front): State<Arc<Front>>) -> Html<String> {
    let profile = front.services.runner.agent().profile();
    let (name, address) = (
        escaped(&front.services.name),
        front.services.identity.address(),
    );
    let tools = escaped(&profile.tools.join(", "));
    Html(format!(
        r#"<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem}}code{{overflow-wrap:anywhere}}</style>
<h1>{name}</h1>
<p>An agent served over OIP 0.1.</p>
<dl><dt>Address</dt><dd><code>{address}</code></dd>
<dt>WebSocket</dt><dd><code>/ws</code></dd>
<dt>Tools</dt><dd>{tools}</dd></dl>
<p><a href="/info">info</a> · <a href="/health">health</a></p>
</html>
"#
    ))
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// Healthy only if the ledger and the store can be written (fact F72).
async fn health(State(front): State<Arc<Front>>) -> Response<Body> {
    let services = &front.services;
    let (ledger, store) = tokio::join!(services.ledger.probe(), services.registry.store().probe());
    let problem = |writable: bool, reason: Option<String>| {
        (!writable).then(|| reason.unwrap_or_else(|| "cannot be written".to_owned()))
    };
    let (ledger_problem, store_problem) = (
        problem(ledger.writable, ledger.reason),
        problem(store.writable, store.reason),
    );
    let healthy = ledger_problem.is_none() && store_problem.is_none();
    let body = json!({
        "status": if healthy { "healthy" } else { "unhealthy" },
        "agent": services.name,
        "uptime": front.started.elapsed().as_secs(),
        "ledger": {"writable": ledger_problem.is_none(), "reason": ledger_problem, "healed": ledger.healed},
        "store": {"writable": store_problem.is_none(), "reason": store_problem},
        "draining": services.draining.is_cancelled(),
    });
    let status = if healthy {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    answer(status, body.to_string())
}

/// What everybody may know (fact F54).
async fn info(State(front): State<Arc<Front>>) -> Response<Body> {
    #[derive(Serialize)]
    struct Info<'a> {
        name: &'a str,
        address: Address,
        tools: Vec<String>,
        model: String,
        trust: &'a str,
        version: &'a str,
        skills: [&'a str; 0],
        accepted_inputs: serde_json::Value,
        protocol: &'a RawValue,
    }
    let services = &front.services;
    let profile = services.runner.agent().profile();
    let info = Info {
        name: &services.name,
        address: services.identity.address(),
        tools: profile.tools,
        model: profile.model,
        trust: &front.trust_name,
        version: env!("CARGO_PKG_VERSION"),
        skills: [],
        accepted_inputs: json!({
            "text": true, "images": true,
            "files": {
                "max_file_size_mb": front.max_file_size,
                "max_files_per_request": front.max_files_per_request,
            },
        }),
        protocol: embedded(PROTOCOL),
    };
    let mut response = answer(StatusCode::OK, to_json(&info));
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn not_found() -> Response<Body> {
    error(StatusCode::NOT_FOUND, "not found")
}

/// An error as JSON.
pub(super) fn error(status: StatusCode, message: &str) -> Response<Body> {
    answer(status, json!({"error": message}).to_string())
}

fn answer(status: StatusCode, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}
