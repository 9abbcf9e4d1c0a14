//! The tokens of those who come by TCP, each with its role.

use super::super::peer::Access;
use crate::config::read_secret;
use axum::http::{HeaderMap, header};
use data_encoding::BASE64;
use sha2::{Digest, Sha256};
use std::fmt;
use std::path::Path;

/// Shortest token: enough that it cannot be guessed if it is random.
const LETTERS_MIN: usize = 16;

/// Longest token.
const LETTERS_MAX: usize = 256;

/// Tokens of one file.
const TOKENS_MAX: usize = 64;

/// The roles that a token may have. Nobody works by TCP.
const ROLES: [Access; 3] = [Access::Read, Access::Submit, Access::Operate];

/// The tokens that are known, as hashes: nothing that is printed or left in memory is one of them,
/// and comparing hashes tells by its time nothing about a token.
#[derive(Default)]
pub(crate) struct Tokens(Vec<([u8; 32], Access)>);

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens", self.0.len())
    }
}

/// A token that was known when it was shown, as its hash, and the role that it had then.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pass {
    hash: [u8; 32],
    role: Access,
}

impl Pass {
    /// The role.
    pub(crate) const fn role(self) -> Access {
        self.role
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a token for {}", self.role.word())
    }
}

/// What a request shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// No token.
    Nothing,
    /// One that is not known.
    Wrong,
    /// One that is.
    Known(Pass),
}

impl Tokens {
    /// Those of a file that only its owner may read: a line each, `ROLE TOKEN`, or a token alone
    /// for `read`. Empty lines and those that begin with `#` say nothing.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let bytes = read_secret("token file", path)?;
        Self::parse(&bytes).map_err(|why| format!("the token file {}: {why}", path.display()))
    }

    /// The same of the content of such a file.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_other| "it is not UTF-8")?;
        let mut tokens = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = entry(line);
            tokens.push(entry.map_err(|why| format!("line {}: {why}", number + 1))?);
        }
        if tokens.is_empty() || TOKENS_MAX < tokens.len() {
            return Err(format!("it must have 1 to {TOKENS_MAX} tokens"));
        }
        Ok(Self(tokens))
    }

    /// Whose token the headers show: as a bearer, or as the password of any name, which is how a
    /// browser asks for it.
    pub(crate) fn shown(&self, headers: &HeaderMap) -> Shown {
        let mut said = headers.get_all(header::AUTHORIZATION).iter();
        let Some(first) = said.next() else { return Shown::Nothing };
        let token = first.to_str().ok().and_then(token_of).filter(|_| said.next().is_none());
        let pass = token.and_then(|token| {
            let hash = hash(&token);
            self.role(&hash).map(|role| Pass { hash, role })
        });
        pass.map_or(Shown::Wrong, Shown::Known)
    }

    /// Whether a token that was known still is, with the role that it had or a higher one.
    pub(crate) fn still_know(&self, pass: Pass) -> bool {
        self.role(&pass.hash).is_some_and(|role| pass.role <= role)
    }

    /// The role of a token by its hash. Looks at all of them, whichever it is.
    fn role(&self, shown: &[u8; 32]) -> Option<Access> {
        let same = |known: &[u8; 32]| {
            known.iter().zip(shown).fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
        };
        self.0
            .iter()
            .fold(None, |found, (known, role)| if same(known) { Some(*role) } else { found })
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// The token of a line, hashed, and its role.
fn entry(line: &str) -> Result<([u8; 32], Access), String> {
    let (role, token) = match line.split_once(char::is_whitespace) {
        None => (Access::Read, line),
        Some((word, rest)) => {
            let role = ROLES.into_iter().find(|role| role.word() == word);
            // What stands there may be a token: it is not repeated.
            (role.ok_or("the role must be read, submit or operate")?, rest.trim_start())
        }
    };
    if !(LETTERS_MIN..=LETTERS_MAX).contains(&token.len())
        || !token.bytes().all(|byte| byte.is_ascii_graphic())
    {
        return Err(format!(
            "a token must have {LETTERS_MIN} to {LETTERS_MAX} visible ASCII characters\n  \
             head -c 24 /dev/urandom | base64"
        ));
    }
    Ok((hash(token), role))
}

/// The token that the value of `authorization` shows.
fn token_of(value: &str) -> Option<String> {
    let (scheme, rest) = value.split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") || LETTERS_MAX * 4 < rest.len() {
        return None;
    }
    let pair = String::from_utf8(BASE64.decode(rest.as_bytes()).ok()?).ok()?;
    pair.split_once(':').map(|(_name, password)| password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use std::os::unix::fs::PermissionsExt;

    #[expect(clippy::disallowed_methods, reason = "a test's file need not last")]
    fn read(text: &str, mode: u32) -> Result<Tokens, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        Tokens::read(&path)
    }

    fn shown(tokens: &Tokens, values: &[&str]) -> Shown {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        tokens.shown(&headers)
    }

    /// The role of what is shown; none of what is wrong.
    fn role(tokens: &Tokens, value: &str) -> Option<Access> {
        match shown(tokens, &[value]) {
            Shown::Known(pass) => Some(pass.role()),
            other => {
                assert_eq!(other, Shown::Wrong);
                None
            }
        }
    }

    #[test]
    fn each_token_has_the_role_of_its_line_and_no_other_is_known() {
        let text =
            "# ours\n\nreader-0123456789\nsubmit  submitter-012345\noperate operator-0123456\n";
        let tokens = read(text, 0o600).unwrap();
        for (value, expected) in [
            ("Bearer reader-0123456789", Some(Access::Read)),
            ("bearer  submitter-012345", Some(Access::Submit)),
            ("Bearer operator-0123456", Some(Access::Operate)),
            ("Bearer operator-0123457", None),
            ("Bearer operator-012345", None),
            ("Bearer", None),
            ("Digest operator-0123456", None),
            ("Basic !!!", None),
        ] {
            assert_eq!(role(&tokens, value), expected, "{value}");
        }
        let basic = |pair: &str| format!("Basic {}", BASE64.encode(pair.as_bytes()));
        for name in ["", "me", "ada"] {
            let pair = format!("{name}:operator-0123456");
            assert_eq!(role(&tokens, &basic(&pair)), Some(Access::Operate));
        }
        assert_eq!(shown(&tokens, &[&basic("operator-0123456")]), Shown::Wrong);
        assert_eq!(shown(&tokens, &[]), Shown::Nothing);
        let twice = ["Bearer reader-0123456789", "Bearer operator-0123456"];
        assert_eq!(shown(&tokens, &twice), Shown::Wrong);
    }

    #[test]
    fn a_token_is_still_known_while_its_role_does_not_sink() {
        let of = |text: &str| Tokens::parse(text.as_bytes()).unwrap();
        let Shown::Known(pass) =
            shown(&of("submit token-0123456789"), &["Bearer token-0123456789"])
        else {
            panic!("it is known")
        };
        assert_eq!(format!("{pass:?}"), "a token for submit", "and not its hash");
        for (text, still) in [
            ("submit token-0123456789", true),
            ("read other-0123456789\noperate token-0123456789", true),
            ("read token-0123456789", false),
            ("submit other-0123456789", false),
        ] {
            assert_eq!(of(text).still_know(pass), still, "{text}");
        }
        assert!(!Tokens::default().still_know(pass));
    }

    #[test]
    fn a_file_that_others_can_read_or_whose_tokens_are_weak_is_refused_without_repeating_them() {
        let refused = |text: &str, mode| read(text, mode).unwrap_err();
        assert!(refused("reader-0123456789", 0o640).contains("chmod 600"));
        assert!(refused("reader-0123456789", 0o604).contains("mode 0604"));
        assert!(refused("# nothing\n", 0o600).contains("1 to 64 tokens"));
        for weak in [
            "read short-012345678",
            "short",
            "read tow words-0123456789",
            "worker reader-0123456789",
        ] {
            let weak = weak.replace("short-012345678", "short-012345");
            let why = refused(&format!("\n{weak}\n"), 0o600);
            assert!(why.contains("line 2: "), "{why}");
            assert!(!why.contains("short") && !why.contains("0123456789"), "{why}");
        }
    }
}
