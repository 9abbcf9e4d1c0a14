//! News for the init system (the `sd_notify` protocol): one datagram each, nothing expected back.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Where news goes; nowhere when the init system did not ask for any.
#[derive(Debug)]
pub(crate) struct Notify(Option<(UnixDatagram, SocketAddr)>);

impl Notify {
    /// Prepares to send to `socket`: a path, or an abstract name after `@`.
    pub(crate) fn open(socket: Option<&OsString>) -> io::Result<Self> {
        let Some(socket) = socket else { return Ok(Self(None)) };
        let address = match socket.as_bytes().split_first() {
            Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(socket)?,
        };
        let from = UnixDatagram::unbound()?;
        from.set_nonblocking(true)?;
        Ok(Self(Some((from, address))))
    }

    /// Whether anybody listens.
    pub(crate) const fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Says that the engine serves, or that a new config is in force.
    pub(crate) fn ready(&self) {
        self.send("READY=1");
    }

    /// Says that the config is being read, as of this reading of CLOCK_MONOTONIC.
    pub(crate) fn reloading(&self, monotonic: Duration) {
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic.as_micros()));
    }

    /// Says in words what goes on.
    pub(crate) fn status(&self, words: &str) {
        self.send(&format!("STATUS={words}"));
    }

    /// Asks for so much more time, from now on, to get ready.
    pub(crate) fn extend(&self, span: Duration) {
        self.send(&format!("EXTEND_TIMEOUT_USEC={}", span.as_micros()));
    }

    /// Says that the supervisor lives, and so does the engine.
    pub(crate) fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// Says that all are about to end.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    fn send(&self, news: &str) {
        let Some((from, address)) = &self.0 else { return };
        if let Err(error) = from.send_to_addr(news.as_bytes(), address) {
            tracing::debug!(%error, news, "the init system was not told");
        }
    }
}
