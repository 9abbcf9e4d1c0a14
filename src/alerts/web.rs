//! Requests to webhooks, with everything bounded: time, answers, redirects.

use super::body::body;
use super::{ANSWER_BYTES_MAX, TIME_MAX};
use crate::api::NoticeView;
use crate::config::{Address, SecretUrl, Style, Webhook, read_file, read_secret};
use hmac::{Hmac, Mac};
use serde_json::Value;
use sha2::Sha256;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use ureq::Agent;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

/// Longest time to reach the other side.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// Largest file of certificates.
const CERTIFICATES_BYTES_MAX: u64 = 4 << 20;

/// Sends a message.
pub(super) fn post(webhook: &Webhook, notice: &NoticeView) -> Result<(), String> {
    let mut url = address(webhook)?;
    let secret = webhook.secret_file.as_deref().map(first_line).transpose()?;
    let now = crate::clock::read().wall.0;
    let mut signed = None;
    if let Some(secret) = &secret {
        match webhook.style {
            // timestamp in milliseconds, HMAC-SHA256 with the secret as key over both, in the query.
            Style::Dingtalk => {
                let sign = sign(secret.as_bytes(), format!("{now}\n{secret}").as_bytes())?;
                let sep = if url.reveal().contains('?') { '&' } else { '?' };
                let sign = percent(&sign);
                let all = format!("{}{sep}timestamp={now}&sign={sign}", url.reveal());
                url = SecretUrl::parse(&all)?;
            }
            // timestamp in seconds, HMAC-SHA256 over nothing with both as key, in the body.
            Style::Feishu => {
                let at = now / 1000;
                signed = Some((at, sign(format!("{at}\n{secret}").as_bytes(), b"")?));
            }
            Style::Slack | Style::Wecom | Style::Json => {}
        }
    }
    let signed = signed.as_ref().map(|(at, sign)| (*at, sign.as_str()));
    let body = body(webhook.style, notice, signed).to_string();
    let request = agent(webhook)?.post(url.reveal()).content_type("application/json");
    let answer = request.send(body.as_bytes()).map_err(|error| why(&url, &error))?;
    judge(webhook.style, &url, answer)
}

/// Asks for the address.
pub(super) fn get(webhook: &Webhook) -> Result<(), String> {
    let url = address(webhook)?;
    let answer = agent(webhook)?.get(url.reveal()).call().map_err(|error| why(&url, &error))?;
    judge(Style::Json, &url, answer)
}

pub(super) fn check(webhook: &Webhook) -> Result<(), String> {
    if let Some(file) = &webhook.secret_file {
        first_line(file)?;
    }
    if let Some(file) = &webhook.ca_file {
        certificates(file)?;
    }
    address(webhook).map(drop)
}

/// Nothing is kept open between two messages, for they are rare. A redirect is not followed: an
/// address with a token in it, and what the message says, are for this host alone.
fn agent(webhook: &Webhook) -> Result<Agent, String> {
    let mut tls = TlsConfig::builder();
    if let Some(file) = &webhook.ca_file {
        tls = tls.root_certs(RootCerts::Specific(Arc::new(certificates(file)?)));
    }
    let config = Agent::config_builder()
        .tls_config(tls.build())
        .timeout_connect(Some(CONNECT_TIME))
        .timeout_global(Some(TIME_MAX))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .max_idle_connections(0)
        .max_response_header_size(16 << 10)
        .user_agent(concat!("midwatch/", env!("CARGO_PKG_VERSION")))
        .build();
    Ok(config.into())
}

type Answer = ureq::http::Response<ureq::Body>;

/// Whether the other side took it. DingTalk, WeCom and Feishu say in the body of a 200 that they
/// did not.
fn judge(style: Style, url: &SecretUrl, mut answer: Answer) -> Result<(), String> {
    let status = answer.status();
    if status.is_redirection() {
        return Err(format!("{url} answers {status}: it sends elsewhere, which is not followed"));
    }
    let mut body = Vec::new();
    let read = answer.body_mut().as_reader().take(ANSWER_BYTES_MAX).read_to_end(&mut body);
    if !status.is_success() {
        return Err(format!("{url} answers {status}"));
    }
    let code = match style {
        // The status says it all; whatever becomes of the body, the message was taken.
        Style::Slack | Style::Json => return Ok(()),
        Style::Dingtalk | Style::Wecom => &["errcode"][..],
        // The second is that of its first version.
        Style::Feishu => &["code", "StatusCode"][..],
    };
    read.map_err(|error| format!("{url} answers {status} and no more: {}", error.kind()))?;
    let told: Value = serde_json::from_slice(&body).unwrap_or_default();
    let found = code.iter().find_map(|key| told.get(*key)).and_then(Value::as_i64);
    match found {
        Some(0) => Ok(()),
        Some(code) => Err(format!("{url} refuses it with code {code}")),
        None => Err(format!("{url} answers {status} without the code that it took it")),
    }
}

/// Why a request failed. The errors themselves may name the whole address.
fn why(url: &SecretUrl, error: &ureq::Error) -> String {
    let why = match error {
        ureq::Error::Timeout(_) => "no answer in time".to_owned(),
        ureq::Error::HostNotFound => "there is no such host".to_owned(),
        ureq::Error::Io(error) => {
            // What is wrong with a certificate comes wrapped.
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
            inner.map_or_else(|| error.kind().to_string(), tls)
        }
        ureq::Error::Tls(what) => format!("TLS: {what}"),
        ureq::Error::Rustls(error) => tls(error),
        ureq::Error::ConnectionFailed => "no connection".to_owned(),
        _ => "the request failed".to_owned(),
    };
    format!("{url}: {why}")
}

/// What is wrong with the other side's TLS, and what to do. Of the address it names the host alone.
fn tls(error: &rustls::Error) -> String {
    use rustls::CertificateError as Bad;
    let remedy = match error {
        rustls::Error::InvalidCertificate(Bad::UnknownIssuer) => {
            "; if it is one of your own, `ca_file` names the certificate that it hangs on"
        }
        rustls::Error::InvalidCertificate(
            Bad::Expired
            | Bad::ExpiredContext { .. }
            | Bad::NotValidYet
            | Bad::NotValidYetContext { .. },
        ) => "; renew it there, or see to the clock of this host",
        rustls::Error::InvalidCertificate(
            Bad::NotValidForName | Bad::NotValidForNameContext { .. },
        ) => "; the address must have a name that the certificate is for",
        _ => "",
    };
    format!("TLS: {error}{remedy}")
}

fn address(webhook: &Webhook) -> Result<SecretUrl, String> {
    let file = match &webhook.address {
        Address::Url(url) => return Ok(url.clone()),
        Address::File(file) => file,
    };
    let text = first_line(file)?;
    SecretUrl::parse(&text).map_err(|why| format!("the address in {} {why}", file.display()))
}

/// The first line of a file that only its owner may read, spaces around it left out.
fn first_line(path: &Path) -> Result<String, String> {
    let about = |why: &str| format!("the secret {}: {why}", path.display());
    let bytes = read_secret("secret", path)?;
    let text = String::from_utf8(bytes).map_err(|_other| about("it is not UTF-8"))?;
    let line = text.lines().next().unwrap_or_default().trim();
    if line.is_empty() { Err(about("it is empty")) } else { Ok(line.to_owned()) }
}

fn certificates(path: &Path) -> Result<Vec<ureq::tls::Certificate<'static>>, String> {
    let about = |why: String| format!("{}: {why}", path.display());
    let pem = read_file(path, CERTIFICATES_BYTES_MAX).map_err(about)?;
    let certificate = |item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    };
    let found: Vec<_> = parse_pem(&pem).filter_map(certificate).collect();
    if found.is_empty() { Err(about("no certificate in it".to_owned())) } else { Ok(found) }
}

fn sign(key: &[u8], text: &[u8]) -> Result<String, String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|error| error.to_string())?;
    mac.update(text);
    Ok(data_encoding::BASE64.encode(&mac.finalize().into_bytes()))
}

/// Base64 as part of a query.
fn percent(base64: &str) -> String {
    base64.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with Python's hmac and base64, as the two services show it.
    #[test]
    fn requests_are_signed_as_the_services_want_it() {
        let (secret, millis) = ("SEC0123456789abcdef", 1_599_360_473_000_u64);
        let dingtalk = sign(secret.as_bytes(), format!("{millis}\n{secret}").as_bytes()).unwrap();
        assert_eq!(percent(&dingtalk), "aKqBjoyC%2BNYhkgqBYxW0ACXynJFx9Q2eLA%2BQ9FLxhBY%3D");
        let feishu = sign(format!("{}\n{secret}", millis / 1000).as_bytes(), b"").unwrap();
        assert_eq!(feishu, "o4rYuzS+vyYu0ScPJVg0TrKMaVksgOXu1MYbxvtUINE=");
    }

    #[test]
    fn an_address_is_shown_without_what_makes_it_a_secret() {
        let url = SecretUrl::parse("https://oapi.dingtalk.com/robot/send?access_token=T0K3N");
        let url = url.unwrap();
        assert_eq!(url.to_string(), "https://oapi.dingtalk.com/…");
        assert_eq!(format!("{url:?}"), "https://oapi.dingtalk.com/…");
        for bad in ["", "ftp://a/b", "https://", "https://user:T0K3N@a/b", "https://a b/T0K3N"] {
            let why = SecretUrl::parse(bad).unwrap_err();
            assert!(!why.contains("T0K3N"), "{why}");
        }
    }
}
