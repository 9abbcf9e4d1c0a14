//! Webhooks that are asked by HTTPS, with certificates that are good and that are not.

use super::alerts::{TOKEN, no_proxy};
use super::house::{CALM, House};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

/// A webhook by HTTPS on a port of its own, with a certificate of `tests/data/tls`.
struct Secured {
    port: u16,
    took: Arc<Mutex<Vec<String>>>,
}

fn tls(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tls").join(name)
}

impl Secured {
    fn start(certificate: &str) -> Self {
        let chain = vec![CertificateDer::from_pem_file(tls(certificate)).unwrap()];
        let key = PrivateKeyDer::from_pem_file(tls("server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key);
        let config = Arc::new(config.unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let took = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&took);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let stream = StreamOwned::new(connection, stream.unwrap());
                // Who does not believe the certificate says no more.
                kept.lock().unwrap().extend(take(stream));
            }
        });
        Self { port, took }
    }

    fn url(&self) -> String {
        format!("https://127.0.0.1:{}/{TOKEN}?key={TOKEN}", self.port)
    }
}

/// Takes one message.
fn take(stream: StreamOwned<ServerConnection, TcpStream>) -> Option<String> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()?;
    reader.get_mut().flush().ok()?;
    String::from_utf8(body).ok()
}

// spec: ALT-011
#[test]
fn a_webhook_by_https_is_told_only_if_its_certificate_is_good_and_the_error_says_why() {
    let [good, other, expired] = ["good.pem", "other.pem", "expired.pem"].map(Secured::start);
    let ours = format!("ca_file = '{}'\n", tls("ca.pem").display());
    let mut more = String::new();
    for (name, hook, ca) in [
        ("good", &good, ours.as_str()),
        ("unknown", &good, ""),
        ("named", &other, &ours),
        ("expired", &expired, &ours),
    ] {
        more += &format!("[alerts.{name}]\nwebhook = '{}'\n{ca}", hook.url());
    }
    let house = House::with(&more, CALM, &[("job", "exit 0", "")]);
    let engine = house.spawn("engine", no_proxy(&house, &["engine"]));
    house.until_served();
    let tested = house.run(&["alerts", "test", "--json"]);
    assert_eq!(tested.status.code(), Some(1));
    let text = String::from_utf8(tested.stdout).unwrap();
    let told: Value = serde_json::from_str(&text).unwrap();
    let error = |name: &str| {
        let channels = told["channels"].as_array().unwrap();
        let channel = channels.iter().find(|it| it["name"] == name).unwrap();
        channel["error"].as_str().map(str::to_owned)
    };
    assert_eq!(error("good"), None, "{text}");
    for (name, parts) in [
        ("unknown", ["UnknownIssuer", "ca_file"]),
        ("named", ["not valid for name", "the address must have a name"]),
        ("expired", ["expired", "renew it"]),
    ] {
        let error = error(name).unwrap_or_else(|| panic!("{name} was told: {text}"));
        assert!(parts.iter().all(|part| error.contains(part)), "{name}: {error}");
    }
    assert_eq!(good.took.lock().unwrap().len(), 1);
    assert_eq!(other.took.lock().unwrap().len() + expired.took.lock().unwrap().len(), 0);
    for text in [text, engine.log(), house.say(&["alerts", "--json"])] {
        assert!(!text.contains(TOKEN), "{text}");
    }
}
