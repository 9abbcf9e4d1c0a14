//! The signatures of webhooks: who signs what, and how it is written, differs by sender; behind
//! each stands HMAC-SHA256 over the body, for some with a time before it.
//!
//! | form | header | what is signed |
//! | --- | --- | --- |
//! | Standard Webhooks | `webhook-signature: v1,BASE64 …` | `ID.TIME.BODY`, id and time from headers |
//! | Stripe | `stripe-signature: t=TIME,v1=HEX,…` | `TIME.BODY` |
//! | Slack | `x-slack-signature: v0=HEX` | `v0:TIME:BODY`, the time from a header |
//! | GitHub, Forgejo | `x-hub-signature-256: sha256=HEX` | the body |
//! | Gitea, Gogs | `x-gitea-signature: HEX`, `x-gogs-signature: HEX` | the body |
//! | plain | `x-signature-256: HEX`, also with `sha256=` | the body |
//!
//! The first of these headers that is there decides. No comparison tells by its time how much of a
//! signature was right, and nothing here writes a secret anywhere.

use crate::config::read_secret;
use crate::kernel::ids::Timestamp;
use axum::http::HeaderMap;
use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fmt;
use std::path::Path;

/// How far the time of a delivery may be from ours.
const SKEW_SECS_MAX: u64 = 300;

/// Signatures in one header that are tried.
const CANDIDATES_MAX: usize = 16;

/// Shortest secret: 128 bits, if they are random.
const SECRET_BYTES_MIN: usize = 16;

/// What sender and receiver know and nobody else does.
#[derive(Clone)]
pub(crate) struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Reads the secret of a file that only its owner may read; spaces and line ends around it are
    /// not part of it.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let about = |why: String| format!("the secret {}: {why}", path.display());
        let bytes = read_secret("secret", path)?;
        let secret = Self(bytes.trim_ascii().to_vec());
        if secret.0.len() < SECRET_BYTES_MIN {
            return Err(about(format!("it has less than {SECRET_BYTES_MIN} bytes")));
        }
        Ok(secret)
    }

    /// The key of Standard Webhooks: `whsec_` says that base64 follows.
    fn standard(&self) -> Vec<u8> {
        let encoded = self.0.strip_prefix(b"whsec_");
        let key = encoded.and_then(|encoded| BASE64.decode(encoded).ok());
        key.unwrap_or_else(|| self.0.clone())
    }
}

/// Why a delivery is not believed, for our own log. Whoever sent it is told nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// No header that holds a signature of a known form.
    Unsigned,
    /// A signature, or what belongs to it, is not of its form.
    Malformed,
    /// It was signed too long ago, or ahead of us.
    Untimely,
    /// It was signed with another secret, or changed on the way.
    Wrong,
}

impl Doubt {
    /// The doubt in words.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Unsigned => "there is no signature of a known form",
            Self::Malformed => "the signature is not of its form",
            Self::Untimely => "its time is more than 5 minutes from ours",
            Self::Wrong => "the signature is another one: is it the same secret on both sides?",
        }
    }
}

type Believed = Result<(), Doubt>;

/// A delivery as it came in.
pub(crate) struct Delivery<'a> {
    /// Its headers.
    pub(crate) headers: &'a HeaderMap,
    /// Its body, byte for byte.
    pub(crate) body: &'a [u8],
    /// What time it is; none while nobody knows, and then no delivery is untimely.
    pub(crate) now: Option<Timestamp>,
}

impl<'a> Delivery<'a> {
    /// Passes what was signed with the secret.
    pub(crate) fn check(&self, secret: &Secret) -> Believed {
        if let Some(signatures) = self.header("webhook-signature") {
            return self.standard(&secret.standard(), signatures);
        }
        if let Some(signature) = self.header("stripe-signature") {
            return self.stripe(&secret.0, signature);
        }
        if let Some(signature) = self.header("x-slack-signature") {
            let time = self.header("x-slack-request-timestamp").ok_or(Doubt::Malformed)?;
            self.is_timely(time)?;
            let digits = signature.strip_prefix("v0=").ok_or(Doubt::Malformed)?;
            let signed = mac(&secret.0, &[b"v0:", time.as_bytes(), b":", self.body])?;
            return is_right(&signed, &[digits], hex);
        }
        let digits = if let Some(signature) = self.header("x-hub-signature-256") {
            signature.strip_prefix("sha256=").ok_or(Doubt::Malformed)?
        } else if let Some(digits) = self.header("x-gitea-signature") {
            digits
        } else if let Some(digits) = self.header("x-gogs-signature") {
            digits
        } else if let Some(signature) = self.header("x-signature-256") {
            signature.strip_prefix("sha256=").unwrap_or(signature)
        } else {
            return Err(Doubt::Unsigned);
        };
        is_right(&mac(&secret.0, &[self.body])?, &[digits], hex)
    }

    fn standard(&self, key: &[u8], signatures: &str) -> Believed {
        let id = self.header("webhook-id").ok_or(Doubt::Malformed)?;
        let time = self.header("webhook-timestamp").ok_or(Doubt::Malformed)?;
        self.is_timely(time)?;
        let ours: Vec<_> =
            signatures.split(' ').filter_map(|one| one.strip_prefix("v1,")).collect();
        let signed = mac(key, &[id.as_bytes(), b".", time.as_bytes(), b".", self.body])?;
        is_right(&signed, &ours, |text| BASE64.decode(text.as_bytes()).ok())
    }

    fn stripe(&self, key: &[u8], signature: &str) -> Believed {
        let parts = || signature.split(',').filter_map(|part| part.trim().split_once('='));
        let time = parts().find(|(name, _)| *name == "t").ok_or(Doubt::Malformed)?.1;
        self.is_timely(time)?;
        let ours: Vec<_> =
            parts().filter(|(name, _)| *name == "v1").map(|(_, digits)| digits).collect();
        let signed = mac(key, &[time.as_bytes(), b".", self.body])?;
        is_right(&signed, &ours, hex)
    }

    /// The header of that name, where it is text that can be seen.
    pub(crate) fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn is_timely(&self, time: &str) -> Believed {
        let plain = !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit());
        let time: u64 = time.parse().ok().filter(|_| plain).ok_or(Doubt::Malformed)?;
        let Some(now) = self.now else { return Ok(()) };
        let is_near = (now.0 / 1000).abs_diff(time) <= SKEW_SECS_MAX;
        is_near.then_some(()).ok_or(Doubt::Untimely)
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()
}

/// What the secret makes of these parts, one after another.
fn mac(key: &[u8], parts: &[&[u8]]) -> Result<Hmac<Sha256>, Doubt> {
    // A key of any length will do for HMAC.
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|_length| Doubt::Wrong)?;
    for part in parts {
        mac.update(part);
    }
    Ok(mac)
}

/// Whether one of the candidates is the signature. Each is compared in constant time.
fn is_right(
    signed: &Hmac<Sha256>,
    candidates: &[&str],
    decode: impl Fn(&str) -> Option<Vec<u8>>,
) -> Believed {
    let mut decoded = candidates.iter().take(CANDIDATES_MAX).filter_map(|text| decode(text));
    let Some(first) = decoded.next() else { return Err(Doubt::Malformed) };
    let is_ours = |candidate: Vec<u8>| signed.clone().verify_slice(&candidate).is_ok();
    let right = std::iter::once(first).chain(decoded).any(is_ours);
    right.then_some(()).ok_or(Doubt::Wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    fn headers(all: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            let name: HeaderName = name.parse().unwrap();
            (name, HeaderValue::from_str(value).unwrap())
        };
        all.iter().map(pair).collect()
    }

    fn check(secret: &str, all: &[(&str, &str)], body: &str, now_secs: Option<u64>) -> Believed {
        let now = now_secs.map(|secs| Timestamp(secs * 1000));
        let delivery = Delivery { headers: &headers(all), body: body.as_bytes(), now };
        delivery.check(&Secret(secret.as_bytes().to_vec()))
    }

    fn sign(secret: &[u8], parts: &[&str]) -> Vec<u8> {
        let parts: Vec<_> = parts.iter().map(|part| part.as_bytes()).collect();
        mac(secret, &parts).unwrap().finalize().into_bytes().to_vec()
    }

    // GitHub's own example.
    const GITHUB: (&str, &str, &str) = (
        "It's a Secret to Everybody",
        "Hello, World!",
        "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
    );

    // spec: TRG-021
    #[test]
    fn the_example_that_github_gives_is_believed() {
        let (secret, body, digits) = GITHUB;
        let prefixed = format!("sha256={digits}");
        for (name, value) in [
            ("X-Hub-Signature-256", prefixed.as_str()),
            ("X-Gitea-Signature", digits),
            ("X-Gogs-Signature", digits),
            ("X-Signature-256", digits),
            ("X-Signature-256", prefixed.as_str()),
        ] {
            assert_eq!(check(secret, &[(name, value)], body, None), Ok(()), "{name}");
            let other = check(secret, &[(name, value)], "Hello, World?", None);
            assert_eq!(other, Err(Doubt::Wrong), "{name}");
        }
        let bare = check(secret, &[("x-hub-signature-256", digits)], body, None);
        assert_eq!(bare, Err(Doubt::Malformed));
    }

    // spec: TRG-021
    #[test]
    fn the_example_of_standard_webhooks_is_believed_with_either_form_of_its_secret() {
        let (secret, body) = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", r#"{"test": 2432232314}"#);
        let mut all = [
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", "1614265330"),
            (
                "webhook-signature",
                "v1a,AAAA v1,bm9ldHUjKzFob2VudXRob2VodWUzMjRvdWVvdW9ldQo= \
                 v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            ),
        ];
        let now = Some(1_614_265_330 + 300);
        assert_eq!(check(secret, &all, body, now), Ok(()));
        assert_eq!(check(secret, &all, body, None), Ok(()));
        for late in [1_614_265_330 + 301, 1_614_265_330 - 301] {
            assert_eq!(check(secret, &all, body, Some(late)), Err(Doubt::Untimely));
        }
        assert_eq!(check(secret, &all[1..], body, now), Err(Doubt::Malformed));
        all[0].1 = "msg_another";
        assert_eq!(check(secret, &all, body, now), Err(Doubt::Wrong));
        // A secret without the prefix is the key as it stands.
        let raw = sign(b"a secret of 24 raw bytes", &["a.7.{}"]);
        let signature = format!("v1,{}", BASE64.encode(&raw));
        let all =
            [("webhook-id", "a"), ("webhook-timestamp", "7"), ("webhook-signature", &signature)];
        assert_eq!(check("a secret of 24 raw bytes", &all, "{}", Some(7)), Ok(()));
    }

    // spec: TRG-021, TRG-022
    #[test]
    fn times_are_signed_too_and_must_be_ours() {
        let (secret, body) = ("a secret that both sides know", r#"{"a":1}"#);
        let stripe = HEXLOWER_PERMISSIVE.encode(&sign(secret.as_bytes(), &["1000.", body]));
        let stripe = format!("t=1000,v0=00,v1={},v1={stripe}", "0".repeat(64));
        let slack = HEXLOWER_PERMISSIVE.encode(&sign(secret.as_bytes(), &["v0:1000:", body]));
        let slack = format!("v0={slack}");
        let forms: [&[(&str, &str)]; 2] = [
            &[("Stripe-Signature", &stripe)],
            &[("X-Slack-Signature", &slack), ("X-Slack-Request-Timestamp", "1000")],
        ];
        for all in forms {
            assert_eq!(check(secret, all, body, Some(1300)), Ok(()));
            assert_eq!(check(secret, all, body, Some(1301)), Err(Doubt::Untimely));
            assert_eq!(check(secret, all, body, Some(699)), Err(Doubt::Untimely));
            assert_eq!(check(secret, all, body, None), Ok(()), "nobody knows the time");
            assert_eq!(check(secret, all, "{}", Some(1000)), Err(Doubt::Wrong));
        }
        let moved = [("X-Slack-Signature", slack.as_str()), ("X-Slack-Request-Timestamp", "1001")];
        assert_eq!(check(secret, &moved, body, Some(1000)), Err(Doubt::Wrong));
        for time in ["", "+1000", "1000.0", "99999999999999999999", " 1000"] {
            let bent = [moved[0], ("X-Slack-Request-Timestamp", time)];
            assert_eq!(check(secret, &bent, body, Some(1000)), Err(Doubt::Malformed), "{time}");
        }
    }

    // spec: TRG-021
    #[test]
    fn a_signature_with_any_bit_turned_is_not_believed_and_breaks_nothing() {
        let (secret, body, digits) = GITHUB;
        let signature = format!("sha256={digits}");
        for place in 0..signature.len() * 8 {
            let mut bent = signature.clone().into_bytes();
            bent[place / 8] ^= 1 << (place % 8);
            let Ok(value) = HeaderValue::from_bytes(&bent) else { continue };
            let all: HeaderMap =
                [(HeaderName::from_static("x-hub-signature-256"), value)].into_iter().collect();
            let delivery = Delivery { headers: &all, body: body.as_bytes(), now: None };
            let believed = delivery.check(&Secret(secret.as_bytes().to_vec()));
            // Turning this bit makes a capital of a digit, which is the same digit.
            let same =
                bent.eq_ignore_ascii_case(signature.as_bytes()) && bent.starts_with(b"sha256=");
            assert_eq!(believed.is_ok(), same, "{}", String::from_utf8_lossy(&bent));
        }
        for length in 0..signature.len() {
            let all = [("x-hub-signature-256", &signature[..length])];
            assert!(check(secret, &all, body, None).is_err(), "{length}");
        }
        assert_eq!(check(secret, &[], body, None), Err(Doubt::Unsigned));
    }

    proptest::proptest! {
        // spec: TRG-021
        #[test]
        fn no_soup_of_headers_is_believed_or_breaks_anything(
            all in proptest::collection::vec((0..10_usize, "(v1,|v0=|t=7,v1=|sha256=|t=|7|v1,=|,| |)[ -~]{0,80}"), 0..6),
            body in "[ -~]{0,40}",
            now in proptest::option::of(0..20_u64),
        ) {
            const NAMES: [&str; 10] = [
                "webhook-signature", "webhook-id", "webhook-timestamp", "stripe-signature",
                "x-slack-signature", "x-slack-request-timestamp", "x-hub-signature-256",
                "x-gitea-signature", "x-gogs-signature", "x-signature-256",
            ];
            let all: Vec<_> =
                all.iter().map(|(name, value)| (NAMES[*name], value.trim())).collect();
            let believed = check("a secret that nobody else knows", &all, &body, now);
            proptest::prop_assert!(believed.is_err());
        }
    }

    // spec: TRG-020
    #[test]
    fn a_secret_that_others_may_read_or_that_is_short_is_refused_and_never_shown() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let put = |text: &str, mode: u32| {
            #[expect(clippy::disallowed_methods, reason = "a test's own file")]
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        put("  0123456789abcdef\n", 0o600);
        let secret = Secret::read(&path).unwrap();
        assert_eq!(secret.0, b"0123456789abcdef");
        assert_eq!(format!("{secret:?}"), "Secret");
        for mode in [0o640, 0o604, 0o620, 0o610] {
            put("0123456789abcdef", mode);
            let why = Secret::read(&path).unwrap_err();
            assert!(why.contains("chmod 600") && !why.contains("0123456789"), "{why}");
        }
        put("0123456789abcde\n\n", 0o600);
        let why = Secret::read(&path).unwrap_err();
        assert!(why.ends_with("less than 16 bytes") && !why.contains("0123456789"), "{why}");
        put(&"x".repeat(5000), 0o600);
        assert!(Secret::read(&path).unwrap_err().ends_with("larger than 4 KiB"));
        assert!(Secret::read(dir.path()).unwrap_err().ends_with("not a file"));
    }
}
