//! Just enough of HTTP/1.1 to keep a connection busy at little cost.

use crate::load::Fallible;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// One kept connection.
pub(crate) struct Http {
    stream: UnixStream,
    out: Vec<u8>,
    /// What was read; an answer begins at its start.
    read: Vec<u8>,
    /// The body of a chunked answer, put together.
    body: Vec<u8>,
}

impl Http {
    pub(crate) fn connect(socket: &Path) -> Fallible<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        stream.set_write_timeout(Some(Duration::from_secs(30)))?;
        Ok(Self { stream, out: Vec::new(), read: Vec::new(), body: Vec::new() })
    }

    /// Sends a request and returns the body of a good answer.
    pub(crate) fn post(&mut self, path: &str, kind: &str, body: &str) -> Fallible<&str> {
        self.out.clear();
        write!(
            self.out,
            "POST {path} HTTP/1.1\r\nhost: m\r\ncontent-type: {kind}\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        self.send()
    }

    /// As [`Http::post`], JSON.
    pub(crate) fn json(&mut self, path: &str, body: &str) -> Fallible<&str> {
        self.post(path, "application/json", body)
    }

    pub(crate) fn get(&mut self, path: &str) -> Fallible<&str> {
        self.out.clear();
        write!(self.out, "GET {path} HTTP/1.1\r\nhost: m\r\n\r\n")?;
        self.send()
    }

    fn send(&mut self) -> Fallible<&str> {
        self.stream.write_all(&self.out)?;
        self.read.clear();
        self.body.clear();
        let head_end = loop {
            if let Some(at) = find(&self.read, 0, b"\r\n\r\n") {
                break at + 4;
            }
            self.more()?;
        };
        let head = std::str::from_utf8(self.read.get(..head_end).unwrap_or_default())?;
        let good = head.starts_with("HTTP/1.1 2");
        let length = field(head, "content-length: ").map(str::parse::<usize>).transpose()?;
        match length {
            Some(length) => {
                while self.read.len() < head_end + length {
                    self.more()?;
                }
                self.body.extend(self.read.get(head_end..head_end + length).unwrap_or_default());
            }
            None => self.chunks(head_end)?,
        }
        let body = std::str::from_utf8(&self.body)?;
        if good { Ok(body) } else { Err(format!("refused: {body}").into()) }
    }

    fn chunks(&mut self, mut at: usize) -> Fallible<()> {
        loop {
            let line_end = loop {
                match find(&self.read, at, b"\r\n") {
                    Some(end) => break end,
                    None => self.more()?,
                }
            };
            let digits = std::str::from_utf8(self.read.get(at..line_end).unwrap_or_default())?;
            let length = usize::from_str_radix(digits.trim(), 16)?;
            let begin = line_end + 2;
            while self.read.len() < begin + length + 2 {
                self.more()?;
            }
            self.body.extend(self.read.get(begin..begin + length).unwrap_or_default());
            if length == 0 {
                return Ok(());
            }
            at = begin + length + 2;
        }
    }

    fn more(&mut self) -> Fallible<()> {
        let mut piece = [0; 16 << 10];
        match self.stream.read(&mut piece)? {
            0 => Err("the connection was closed".into()),
            count => {
                self.read.extend(piece.get(..count).unwrap_or_default());
                Ok(())
            }
        }
    }
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    let place = bytes.get(from..)?.windows(what.len()).position(|window| window == what)?;
    Some(from + place)
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name))
}
