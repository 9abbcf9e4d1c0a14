//! The daemon behind its socket.

use super::connection::{Api, Request};
use super::failure::{Failure, exit};
use super::paint::{Ink, Paint};
use super::text::tame;
use crate::api::MESSAGE_TIME_MAX;
use crate::client::{Blocking, ClientError, Download};
use crate::config::{Config, ConfigError, Named, Surroundings};
use crate::process;
use serde_json::value::RawValue;
use std::cell::OnceCell;
use std::io::{self, BufRead, Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the daemon is looked for; the search happens with the first request.
#[derive(Debug)]
pub(crate) struct Daemon {
    named: Named,
    around: Surroundings,
    warn: Warn,
    socket: OnceCell<PathBuf>,
    client: OnceCell<Blocking>,
    /// For requests that wait for the channels of alerts.
    testing: OnceCell<Blocking>,
    /// For requests whose answers may wait for something to happen.
    patient: OnceCell<Blocking>,
}

/// How to say that the config was refused.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Warn {
    /// Not at all: `-q`.
    Never,
    /// On stderr, with colour or without.
    Stderr(Paint),
}

/// How long a daemon that is well may take to begin the answer to an ordinary request.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The same for a test of the channels of alerts.
const TEST_WITHIN: Duration = MESSAGE_TIME_MAX.saturating_add(ANSWER_WITHIN);

/// How long the answer to a request may take to begin; none for one that may wait for something to
/// happen.
fn patience(request: &Request) -> Option<Duration> {
    match request {
        Request::Get { path } => {
            let waits = ["/wait", "follow=1", "/v1/events"].iter().any(|mark| path.contains(mark));
            (!waits).then_some(ANSWER_WITHIN)
        }
        // Answered once each channel took the message, or had its time.
        Request::Post { path, .. } if path == "/v1/alerts/test" => Some(TEST_WITHIN),
        Request::Post { .. } | Request::Delete { .. } => Some(ANSWER_WITHIN),
        Request::Lines { .. } => None,
    }
}

impl Daemon {
    /// A daemon to be found by what was named.
    pub(crate) fn new(named: Named, around: Surroundings, warn: Warn) -> Self {
        let (client, testing, patient) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Self { named, around, warn, socket: OnceCell::new(), client, testing, patient }
    }

    /// Its socket. A config that was refused is complained about once, and hinders nothing.
    fn socket(&self) -> Result<&PathBuf, Failure> {
        if let Some(socket) = self.socket.get() {
            return Ok(socket);
        }
        let (socket, refused) = Config::find_socket(&self.named, &self.around)?;
        if let (Warn::Stderr(paint), Some(error)) = (self.warn, refused) {
            // That nobody hears it is no failure.
            drop(io::stderr().write_all(warning(&error, &socket, paint).as_bytes()));
        }
        Ok(self.socket.get_or_init(|| socket))
    }

    fn client(&self, request: &Request) -> Result<&Blocking, Failure> {
        let patience = patience(request);
        let cell = match patience {
            Some(ANSWER_WITHIN) => &self.client,
            Some(_) => &self.testing,
            None => &self.patient,
        };
        if let Some(client) = cell.get() {
            return Ok(client);
        }
        let client = Blocking::connect(self.socket()?.clone())
            .map_err(|error| Failure::new(exit::FAILED, format!("cannot begin: {error}")))?;
        let client = match patience {
            Some(limit) => client.answering_within(limit),
            None => client,
        };
        Ok(cell.get_or_init(|| client))
    }
}

/// The first fault of a refused config, and where the daemon is asked all the same.
fn warning(error: &ConfigError, socket: &Path, paint: Paint) -> String {
    let fault = error.faults.first().map(ToString::to_string).unwrap_or_default();
    let asked = format!("asking at {}; `midwatch config check` tells all", socket.display());
    format!("{} {}\n  {}\n", paint.with(Ink::Yellow, "warning:"), tame(&fault), tame(&asked))
}

impl Api for Daemon {
    fn read_log(&self, path: &str) -> Result<(u64, Box<dyn BufRead + '_>), Failure> {
        let request = Request::Get { path: path.to_owned() };
        let download = self.client(&request)?.download(path)?;
        Ok((download.offset(), Box::new(Arriving::new(download))))
    }

    fn send(&self, request: &Request) -> Result<Box<dyn BufRead + '_>, Failure> {
        let client = self.client(request)?;
        match request {
            Request::Get { path } => Ok(Box::new(Arriving::new(client.download(path)?))),
            Request::Post { path, body } => {
                let answer: Box<RawValue> = client.post(path, body)?;
                Ok(Box::new(Cursor::new(answer.get().to_owned())))
            }
            Request::Delete { path } => {
                let answer: Box<RawValue> = client.delete(path)?;
                Ok(Box::new(Cursor::new(answer.get().to_owned())))
            }
            Request::Lines { path, lines } => {
                Ok(Box::new(Arriving::new(client.upload_lines(path, lines.clone())?)))
            }
        }
    }
}

/// An answer as a reader. A connection that breaks is an error that holds the [`ClientError`].
struct Arriving<'a> {
    download: Download<'a>,
    piece: Cursor<Vec<u8>>,
}

impl<'a> Arriving<'a> {
    const fn new(download: Download<'a>) -> Self {
        Self { download, piece: Cursor::new(Vec::new()) }
    }
}

impl Read for Arriving<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fill_buf()?;
        self.piece.read(buffer)
    }
}

impl BufRead for Arriving<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        // An empty piece is not the end.
        while self.piece.fill_buf()?.is_empty() {
            match self.download.piece().map_err(io::Error::other)? {
                Some(piece) => self.piece = Cursor::new(piece.to_vec()),
                None => break,
            }
        }
        self.piece.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.piece.consume(amount);
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let failure = Self::new(error.exit(), error.to_string());
        match error {
            ClientError::Unreachable { socket, .. } => match process::worker_of(&socket) {
                Some(worker) => failure.with_help(format!(
                    "its worker is there (pid {worker}), so its engine is starting again or gone \
                     for a moment"
                )),
                None => failure
                    .with_help("start it with `midwatch daemon`, or name its socket with --socket"),
            },
            ClientError::Silent { pid, may_change, .. } => {
                let failure = failure.with_help(what_holds_it_up(pid));
                if may_change {
                    failure.with_help("say it again with the same --key, or look what was done")
                } else {
                    failure
                }
            }
            ClientError::Protocol { .. } => failure.with_help(
                "is it of another version? `midwatch status` tells, and `midwatch --version`",
            ),
            ClientError::Forbidden { .. }
            | ClientError::Problem(_)
            | ClientError::OutcomeUnknown { .. } => match error.help() {
                Some(help) => failure.with_help(help),
                None => failure,
            },
        }
    }
}

/// Why a daemon does not answer, as far as its process tells.
fn what_holds_it_up(pid: Option<u32>) -> String {
    let state = pid.and_then(|pid| Some((pid, process::state(pid)?)));
    match state {
        Some((pid, 'T' | 't')) => format!("it is stopped; `kill -CONT {pid}` lets it go on"),
        Some((_, 'D')) => "it waits for its disk".to_owned(),
        _ => {
            "it is very busy, or stuck: a supervisor ends and starts it again after 90 s of silence"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Origin, Place};
    use expect_test::expect;
    use std::os::unix::net::UnixListener;

    /// Asks at `socket`, and tells how that failed.
    fn ask(socket: &Path, request: &Request) -> String {
        let place = Place { path: socket.to_owned(), origin: Origin::Flag("--socket") };
        let around = crate::cli::samples::environment().surroundings;
        let named = Named { socket: Some(place), ..Named::default() };
        let daemon = Daemon::new(named, around, Warn::Never);
        let failure = daemon.send(request).err().unwrap();
        format!("exit {}\n{}", failure.code(), failure.render(false))
    }

    #[test]
    fn a_daemon_that_is_not_there_is_named_with_the_way_to_start_it() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("midwatch.sock");
        let tamed = |said: String| said.replace(dir.path().to_str().unwrap(), "DIR");
        let list = Request::Get { path: "/v1/tasks".to_owned() };
        expect![[r#"
            exit 5
            error: the daemon is not reachable at DIR/midwatch.sock: there is no such socket
              start it with `midwatch daemon`, or name its socket with --socket
        "#]]
        .assert_eq(&tamed(ask(&socket, &list)));
        // A socket that a killed daemon left behind.
        drop(UnixListener::bind(&socket).unwrap());
        expect![[r#"
            exit 5
            error: the daemon is not reachable at DIR/midwatch.sock: nobody listens on it
              start it with `midwatch daemon`, or name its socket with --socket
        "#]]
        .assert_eq(&tamed(ask(&socket, &list)));
    }

    #[test]
    fn a_daemon_that_goes_before_it_answers_leaves_the_outcome_open() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("midwatch.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let gone = std::thread::Builder::new().spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 1];
            stream.read_exact(&mut head).unwrap();
        });
        let body = serde_json::value::to_raw_value(&7).unwrap();
        let said = ask(&socket, &Request::Post { path: "/v1/tasks".to_owned(), body });
        gone.unwrap().join().unwrap();
        assert!(said.starts_with("exit 8\n"), "{said}");
        assert!(said.contains("--key"), "{said}");
    }
}
