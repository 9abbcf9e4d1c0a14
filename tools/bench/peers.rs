//! Peers, each in the mode in which an acknowledged write is on the disk.

use crate::load::{Client, Fallible, Op, Running, Server, patiently, payload};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Tasks in one round trip of a load that is not measured.
const BULK: u64 = 1000;

/// The same for beanstalkd.
const PIPELINED: u64 = 50;

/// A kept connection that is read by lines.
struct Wire {
    read: BufReader<UnixStream>,
    write: UnixStream,
    out: Vec<u8>,
    line: String,
}

impl Wire {
    fn connect(socket: &Path) -> Fallible<Self> {
        let write = UnixStream::connect(socket)?;
        write.set_read_timeout(Some(Duration::from_secs(30)))?;
        let read = BufReader::with_capacity(1 << 16, write.try_clone()?);
        Ok(Self { read, write, out: Vec::new(), line: String::new() })
    }

    fn send(&mut self) -> Fallible<()> {
        self.write.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    fn line(&mut self) -> Fallible<&str> {
        self.line.clear();
        if self.read.read_line(&mut self.line)? == 0 {
            return Err("the connection was closed".into());
        }
        Ok(self.line.trim_end())
    }

    /// Reads bytes and the end of line behind them.
    fn take(&mut self, count: usize) -> Fallible<Vec<u8>> {
        let mut bytes = vec![0; count + 2];
        self.read.read_exact(&mut bytes)?;
        bytes.truncate(count);
        Ok(bytes)
    }
}

fn version(program: &str, flag: &str) -> Fallible<String> {
    let output = Command::new(program).arg(flag).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn start(mut command: Command, dir: &Path) -> Fallible<Running> {
    command.current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let socket = dir.join("socket");
    let running = Running::new(command.spawn()?, dir, socket);
    patiently("a peer does not answer", || Wire::connect(&running.socket).map(drop))?;
    Ok(running)
}

/// beanstalkd with a sync for each write to its log.
pub(crate) struct Beanstalkd;

impl Server for Beanstalkd {
    fn name(&self) -> &'static str {
        "beanstalkd -f0"
    }

    fn version(&self) -> Fallible<String> {
        version("beanstalkd", "-v")
    }

    fn start(&self, dir: &Path) -> Fallible<Running> {
        Self::start_with(dir, "-f0")
    }

    fn start_loading(&self, dir: &Path) -> Fallible<Running> {
        Self::start_with(dir, "-f1000")
    }

    fn client(&self, running: &Running, _op: Op) -> Fallible<Box<dyn Client>> {
        Ok(Box::new(BeanstalkdClient(Wire::connect(&running.socket)?)))
    }
}

impl Beanstalkd {
    fn start_with(dir: &Path, sync: &str) -> Fallible<Running> {
        let mut command = Command::new("beanstalkd");
        let socket = dir.join("socket");
        command.arg("-l").arg(format!("unix:{}", socket.display()));
        command.arg("-b").arg(dir).arg(sync);
        start(command, dir)
    }
}

struct BeanstalkdClient(Wire);

impl BeanstalkdClient {
    /// Many submissions at once, their answers after them.
    fn bulk(&mut self, number: u64) -> Fallible<u64> {
        let Self(wire) = self;
        // It stops reading when there is more.
        for number in number * PIPELINED..(number + 1) * PIPELINED {
            let payload = payload(number);
            write!(wire.out, "put 100 0 600 {}\r\n{payload}\r\n", payload.len())?;
        }
        wire.send()?;
        for _ in 0..PIPELINED {
            let line = wire.line()?;
            if !line.starts_with("INSERTED") {
                return Err(line.into());
            }
        }
        Ok(PIPELINED)
    }

    fn take(&mut self) -> Fallible<u64> {
        let Self(wire) = self;
        wire.out.extend(b"reserve-with-timeout 10\r\n");
        wire.send()?;
        let line = wire.line()?;
        let mut words = line.split(' ').skip(1).map(str::parse::<usize>);
        let (Some(Ok(id)), Some(Ok(length))) = (words.next(), words.next()) else {
            return Err(line.into());
        };
        wire.take(length)?;
        write!(wire.out, "delete {id}\r\n")?;
        wire.send()?;
        let line = wire.line()?;
        if line != "DELETED" {
            return Err(line.into());
        }
        Ok(1)
    }
}

impl Client for BeanstalkdClient {
    fn act(&mut self, op: Op, number: u64) -> Fallible<u64> {
        match op {
            Op::Bulk => return self.bulk(number),
            Op::Take => return self.take(),
            Op::Submit | Op::Cycle => {}
        }
        let Self(wire) = self;
        let payload = payload(number);
        write!(wire.out, "put 100 0 600 {}\r\n{payload}\r\n", payload.len())?;
        wire.send()?;
        let line = wire.line()?;
        if !line.starts_with("INSERTED") {
            return Err(line.into());
        }
        if let Op::Cycle = op {
            self.take()?;
        }
        Ok(1)
    }
}

/// Redis lists with a sync before each answer.
pub(crate) struct Redis;

impl Server for Redis {
    fn name(&self) -> &'static str {
        "Redis list, AOF always"
    }

    fn version(&self) -> Fallible<String> {
        version("redis-server", "--version")
    }

    fn start(&self, dir: &Path) -> Fallible<Running> {
        Self::start_with(dir, "always")
    }

    fn start_loading(&self, dir: &Path) -> Fallible<Running> {
        Self::start_with(dir, "no")
    }

    fn client(&self, running: &Running, _op: Op) -> Fallible<Box<dyn Client>> {
        Ok(Box::new(RedisClient(Wire::connect(&running.socket)?)))
    }
}

impl Redis {
    fn start_with(dir: &Path, sync: &str) -> Fallible<Running> {
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "yes"]);
        command.args(["--appendfsync", sync, "--unixsocket"]).arg(dir.join("socket"));
        command.arg("--dir").arg(dir);
        let running = start(command, dir)?;
        patiently("redis is loading", || {
            let mut client = RedisClient(Wire::connect(&running.socket)?);
            client.call(&[b"LLEN", b"q"]).map(drop)
        })?;
        Ok(running)
    }
}

struct RedisClient(Wire);

impl RedisClient {
    fn call(&mut self, words: &[&[u8]]) -> Fallible<Vec<u8>> {
        self.say(words)?;
        self.0.send()?;
        self.hear()
    }

    /// Many submissions at once, their answers after them.
    fn bulk(&mut self, number: u64) -> Fallible<u64> {
        for number in number * BULK..(number + 1) * BULK {
            self.say(&[b"LPUSH", b"q", payload(number).as_bytes()])?;
        }
        self.0.send()?;
        for _ in 0..BULK {
            self.hear()?;
        }
        Ok(BULK)
    }

    fn take(&mut self) -> Fallible<u64> {
        let taken = self.call(&[b"LMOVE", b"q", b"busy", b"RIGHT", b"LEFT"])?;
        if self.call(&[b"LREM", b"busy", b"-1", &taken])? == b"1" {
            Ok(1)
        } else {
            Err("a task was not where it should be".into())
        }
    }

    fn say(&mut self, words: &[&[u8]]) -> Fallible<()> {
        let Self(wire) = self;
        write!(wire.out, "*{}\r\n", words.len())?;
        for word in words {
            write!(wire.out, "${}\r\n", word.len())?;
            wire.out.extend_from_slice(word);
            wire.out.extend(b"\r\n");
        }
        Ok(())
    }

    fn hear(&mut self) -> Fallible<Vec<u8>> {
        let Self(wire) = self;
        let line = wire.line()?;
        if let Some(number) = line.strip_prefix(':') {
            return Ok(number.as_bytes().to_vec());
        }
        let Some(length) = line.strip_prefix('$').and_then(|digits| digits.parse().ok()) else {
            return Err(line.into());
        };
        wire.take(length)
    }
}

impl Client for RedisClient {
    fn act(&mut self, op: Op, number: u64) -> Fallible<u64> {
        match op {
            Op::Bulk => return self.bulk(number),
            Op::Take => return self.take(),
            Op::Submit | Op::Cycle => {}
        }
        self.call(&[b"LPUSH", b"q", payload(number).as_bytes()])?;
        if let Op::Cycle = op {
            self.take()?;
        }
        Ok(1)
    }
}
