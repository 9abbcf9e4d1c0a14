//! The daemon behind its socket.

use super::connection::{Api, Request};
use super::failure::Failure;
use crate::config::{Config, Named, Surroundings};
use std::io::BufRead;

/// Where the daemon is looked for; the search happens with the first request.
#[derive(Debug)]
pub(crate) struct Daemon {
    named: Named,
    around: Surroundings,
}

impl Daemon {
    /// A daemon to be found by what was named.
    pub(crate) const fn new(named: Named, around: Surroundings) -> Self {
        Self { named, around }
    }
}

impl Api for Daemon {
    fn send(&self, _request: &Request) -> Result<Box<dyn BufRead>, Failure> {
        let socket = Config::find_socket(&self.named, &self.around)?;
        Err(Failure::new(5, format!("no client yet for {}", socket.display())))
    }
}
