//! Who comes in by TCP: token files, and the lines of a request that decide about it. Every file is
//! read or refused without a word of it, each token that it gives is known by its role, and no name
//! that others may own passes for ours.

use crate::bytes::Bytes;
use midwatch::server::alone::{Head, is_meant, role};
use std::net::IpAddr;

/// The shortest token.
const TOKEN_MIN: usize = 16;

/// A file until the first zero, then a head: the method and the lines.
pub fn run(input: &[u8]) {
    let mut bytes = Bytes::new(input);
    let way = bytes.byte();
    let rest = bytes.rest();
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    let (file, rest) = rest.split_at(end);
    let head = head(rest.get(1..).unwrap_or_default());
    file_of_tokens(file, &head);
    names(way, &head);
}

fn head(bytes: &[u8]) -> Head<'_> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let method = lines.next().and_then(|line| std::str::from_utf8(line).ok()).unwrap_or_default();
    Head { method, lines: lines.filter_map(line).take(100).collect() }
}

fn line(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let colon = bytes.iter().position(|byte| *byte == b':')?;
    Some((std::str::from_utf8(&bytes[..colon]).ok()?, &bytes[colon + 1..]))
}

fn file_of_tokens(file: &[u8], head: &Head<'_>) {
    match role(file, head) {
        Ok(shown) => {
            let asked =
                head.lines.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
            assert!(asked || shown.is_none(), "nothing was shown, and {shown:?} seen");
            let text = std::str::from_utf8(file).expect("it was taken");
            for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
                let Some(token) = line.split_whitespace().last() else { continue };
                let bearer = format!("Bearer {token}");
                let lines = vec![("authorization", bearer.as_bytes())];
                let found = role(file, &Head { method: "GET", lines });
                let found = found.expect("it was taken").unwrap_or_default();
                assert!(["read", "submit", "operate"].contains(&found), "{token:?} is {found:?}");
            }
        }
        Err(why) => {
            for word in String::from_utf8_lossy(file).split_whitespace() {
                assert!(word.len() < TOKEN_MIN || !why.contains(word), "{why} repeats {word}");
            }
        }
    }
}

fn names(way: u8, head: &Head<'_>) {
    let ours: IpAddr = if way & 1 == 0 { [127, 0, 0, 1].into() } else { [0; 16].into() };
    let address = (way & 2 == 0).then_some(ours);
    let hosts = ["watch.example".to_owned()];
    match is_meant(address, &hosts, head) {
        Ok(()) => {
            // What no line of a request can be was left out.
            let is_sent =
                |value: &[u8]| value.iter().all(|byte| *byte == 9 || !byte.is_ascii_control());
            let hosts = head
                .lines
                .iter()
                .filter(|(name, value)| name.eq_ignore_ascii_case("host") && is_sent(value));
            for (_, host) in hosts {
                let host = String::from_utf8_lossy(host).to_ascii_lowercase();
                let name = host.split(':').next().unwrap_or_default();
                let evil = name.contains("evil.example") && !name.starts_with('[');
                assert!(!evil, "{host} passes for ours");
            }
        }
        Err(problem) => assert!(!problem.detail.is_empty() && problem.detail.len() < 2000),
    }
}

pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    const FILE: &str =
        "# ours\n\nreader-0123456789\nsubmit  submitter-012345\noperate operator-0123456\n";
    let texts = [
        ("nothing", 0, "", "GET\nhost:localhost"),
        ("bearer", 0, FILE, "GET\nhost:127.0.0.1:8474\nauthorization:Bearer operator-0123456"),
        ("basic", 0, FILE, "GET\nhost:localhost\nauthorization:Basic bWU6b3BlcmF0b3ItMDEyMzQ1Ng=="),
        ("unknown", 1, FILE, "POST\nhost:[::]:8474\nauthorization:Digest reader-0123456789"),
        ("twice", 0, FILE, "GET\nhost:x\nauthorization:Bearer a\nauthorization:Bearer b"),
        ("weak", 0, "operate short", "GET\nhost:localhost"),
        ("no-role", 0, "worker reader-0123456789", "GET"),
        ("origin", 0, FILE, "POST\nhost:localhost:80\norigin:http://localhost"),
        ("proxy", 0, FILE, "POST\nhost:127.0.0.1\norigin:https://watch.example:443"),
        ("evil", 0, FILE, "GET\nhost:evil.example:8474\norigin:null"),
        ("socket", 2, FILE, "GET\nhost:evil.example"),
        (
            "link",
            0,
            FILE,
            "GET\nhost:localhost\nsec-fetch-site:cross-site\nsec-fetch-mode:navigate\nsec-fetch-dest:document",
        ),
    ];
    let seed = |(name, way, file, head): (&'static str, u8, &str, &str)| {
        (name, [&[way], file.as_bytes(), &[0], head.as_bytes()].concat())
    };
    texts.into_iter().map(seed).collect()
}
