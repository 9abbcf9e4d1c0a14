//! Opens the TCP address, now or as soon as it can be had.
//!
//! An address that another program has, or that this host does not have yet, keeps no task from
//! running: the unix socket serves meanwhile, and status says what is missing.

use super::super::house::House;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;

/// From the first failure to the next try; twice as long after each.
const AGAIN_FIRST: Duration = Duration::from_secs(2);

/// The longest such wait.
const AGAIN_MAX: Duration = Duration::from_mins(1);

/// Listens on the address. While that fails it is tried again, in the end once a minute; `house`
/// knows why, and the log is told once. Once it is open no timer runs.
pub(crate) async fn open(address: SocketAddr, house: &House) -> TcpListener {
    let mut wait = AGAIN_FIRST;
    loop {
        match listen(address) {
            Ok(listener) => {
                house.note_tcp(None);
                tracing::info!("serving on http://{}/", listener.local_addr().unwrap_or(address));
                return listener;
            }
            Err(error) => {
                let what = format!(
                    "nobody is served by TCP, for {address} cannot be listened on: {error}; it is \
                     tried again at least every minute, and `listen` in [http] names another \
                     address"
                );
                if wait == AGAIN_FIRST {
                    tracing::warn!("{what}");
                }
                house.note_tcp(Some((what, remedy(address, &error))));
            }
        }
        tokio::time::sleep(wait).await;
        wait = wait.saturating_mul(2).min(AGAIN_MAX);
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// The command that shows what is in the way.
fn remedy(address: SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!("ss -ltnp 'sport = :{}'", address.port()),
        io::ErrorKind::AddrNotAvailable => "ip -brief address".to_owned(),
        // Ports that only root may have.
        io::ErrorKind::PermissionDenied => "sysctl net.ipv4.ip_unprivileged_port_start".to_owned(),
        _ => "midwatch config show".to_owned(),
    }
}
