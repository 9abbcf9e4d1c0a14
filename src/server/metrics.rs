//! `GET /metrics`: the figures for Prometheus, names and units by its conventions.
//!
//! A look at the state takes what is cheap to take (the figures are shared, not copied); the text
//! is made on the thread that answers. Everything by type or schedule has a bounded number of
//! labels.

mod collect;
mod write;

use super::app::{Answered, App};
use axum::body::Body;
use axum::extract::State as Shared;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::registry::Registry;
use std::sync::Arc;

/// `GET /metrics`, in the form that the caller understands.
pub(crate) async fn metrics(Shared(app): Shared<Arc<App>>, headers: HeaderMap) -> Answered {
    let sheet = collect::sheet(&app).await?;
    let mut registry = Registry::with_prefix("midwatch");
    registry.register_collector(Box::new(sheet));
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let open = accepts.is_some_and(|accept| accept.contains("application/openmetrics-text"));
    let mut body = String::new();
    let (written, kind) = if open {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        (text::encode(&mut body, &registry), kind)
    } else {
        let kind = "text/plain; version=0.0.4; charset=utf-8";
        (prometheus_text::encode(&mut body, &registry), kind)
    };
    if let Err(error) = written {
        tracing::error!("cannot write the metrics: {error}");
    }
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}
