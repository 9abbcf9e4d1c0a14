//! A socket between the daemon and those who speak to it, which breaks connections in the midst of
//! what is said.

use midwatch::sim::Dice;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Bytes of one direction after which a connection breaks, at most: within the first few requests.
const EARLY: usize = 2_000;

/// The proxy. It serves until the process ends.
#[derive(Clone)]
pub(super) struct Proxy {
    shared: Arc<Shared>,
}

struct Shared {
    to: PathBuf,
    dice: Mutex<Dice>,
    is_calm: AtomicBool,
    open: Mutex<Vec<(u64, UnixStream)>>,
    connections: AtomicU64,
    broken: AtomicU64,
}

/// How much of a connection gets through.
#[derive(Clone, Copy)]
struct Budget {
    said: usize,
    answered: usize,
}

impl Proxy {
    /// Listens at `at` and passes on to `to`.
    pub(super) fn open(at: &Path, to: &Path, dice: Dice) -> Self {
        let listener = UnixListener::bind(at).unwrap();
        let shared = Arc::new(Shared {
            to: to.to_owned(),
            dice: Mutex::new(dice),
            is_calm: AtomicBool::new(false),
            open: Mutex::default(),
            connections: AtomicU64::new(0),
            broken: AtomicU64::new(0),
        });
        let proxy = Self { shared };
        let serving = proxy.clone();
        let _serves = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&serving.shared);
                let _passes = thread::spawn(move || shared.pass(&stream));
            }
        });
        proxy
    }

    /// Breaks nothing from now on.
    pub(super) fn calm(&self) {
        self.shared.is_calm.store(true, Ordering::Relaxed);
    }

    /// Breaks every connection there is; how many that were.
    pub(super) fn cut(&self) -> usize {
        let open = self.shared.open.lock().unwrap();
        for (_, stream) in open.iter() {
            let _gone = stream.shutdown(Shutdown::Both);
        }
        self.shared.broken.fetch_add(open.len() as u64, Ordering::Relaxed);
        open.len()
    }

    /// Connections, and those of them that were broken.
    pub(super) fn figures(&self) -> (u64, u64) {
        let Shared { connections, broken, .. } = &*self.shared;
        (connections.load(Ordering::Relaxed), broken.load(Ordering::Relaxed))
    }
}

impl Shared {
    /// Every fourth connection breaks by itself; half of those while something is asked.
    fn draw(&self) -> Budget {
        let mut dice = self.dice.lock().unwrap();
        let all = Budget { said: usize::MAX, answered: usize::MAX };
        if self.is_calm.load(Ordering::Relaxed) || !dice.one_in(4) {
            all
        } else if dice.one_in(2) {
            Budget { said: dice.below(EARLY), ..all }
        } else {
            Budget { answered: dice.below(EARLY), ..all }
        }
    }

    fn pass(&self, client: &UnixStream) {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let (Ok(server), Ok(handle)) = (UnixStream::connect(&self.to), client.try_clone()) else {
            return;
        };
        self.open.lock().unwrap().push((number, handle));
        if self.copy(client, &server).unwrap_or(false) {
            self.broken.fetch_add(1, Ordering::Relaxed);
        }
        self.open.lock().unwrap().retain(|(other, _)| *other != number);
        for stream in [client, &server] {
            let _gone = stream.shutdown(Shutdown::Both);
        }
    }

    /// Copies both ways; true when the budget ended it.
    fn copy(&self, client: &UnixStream, server: &UnixStream) -> io::Result<bool> {
        let mut budget = self.draw();
        let mut bytes = vec![0; 1 << 16];
        loop {
            let mut ready =
                [PollFd::new(client, PollFlags::IN), PollFd::new(server, PollFlags::IN)];
            match poll(&mut ready, None) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            let [asks, answers] = ready.map(|end| !end.revents().is_empty());
            let ways = [
                (asks, client, server, &mut budget.said),
                (answers, server, client, &mut budget.answered),
            ];
            for (is_ready, mut from, mut to, left) in ways {
                if !is_ready {
                    continue;
                }
                let count = from.read(&mut bytes)?;
                if count == 0 {
                    return Ok(false);
                }
                let passed = count.min(*left);
                to.write_all(&bytes[..passed])?;
                *left -= passed;
                if *left == 0 {
                    return Ok(true);
                }
            }
        }
    }
}
