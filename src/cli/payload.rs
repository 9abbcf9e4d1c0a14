//! JSON that somebody types, names a file of, or pipes in.

use super::failure::Failure;
use crate::units;
use serde_json::value::RawValue;
use std::fs::File;
use std::io::{self, BufRead, Read};

/// Reads `typed`: JSON as it is, `@FILE`, or `-` for stdin. At most `bytes_max` bytes of JSON;
/// what is wrong with it is told with its line and column. `what` names it in complaints.
pub(crate) fn read(
    typed: &str,
    what: &str,
    bytes_max: usize,
    input: &mut dyn BufRead,
) -> Result<Box<RawValue>, Failure> {
    // White space around it does not count, so the text may be longer than what is in it.
    let text_max = (bytes_max as u64).saturating_mul(2);
    let text =
        match typed {
            "-" => read_text(input, text_max).map_err(|error| {
                Failure::usage(format!("cannot read the {what} from standard input: {error}"))
            })?,
            _ => match typed.strip_prefix('@') {
                Some(path) => File::open(path).and_then(|file| read_text(file, text_max)).map_err(
                    |error| Failure::usage(format!("cannot read the {what} from {path}: {error}")),
                )?,
                None => typed.as_bytes().to_vec(),
            },
        };
    parse(&text, what, bytes_max).map_err(|failure| {
        let word = !typed.is_empty() && typed.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if word {
            failure.with_help(format!(
                "text is written with its quotes: '\"{typed}\"'; a file is @{typed}"
            ))
        } else {
            failure
        }
    })
}

fn read_text(from: impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    from.take(bytes_max + 1).read_to_end(&mut text)?;
    Ok(text)
}

/// Checks the JSON and its size.
fn parse(text: &[u8], what: &str, bytes_max: usize) -> Result<Box<RawValue>, Failure> {
    let length = text.trim_ascii().len();
    if bytes_max < length {
        return Err(Failure::usage(format!(
            "the {what} has {} bytes, and {} is the most",
            units::count(length as u64),
            units::count(bytes_max as u64)
        ))
        .with_help("put the data into a file and its path into the payload"));
    }
    serde_json::from_slice(text).map_err(|error| {
        let whole = error.to_string();
        let reason = whole.split(" at line ").next().unwrap_or(&whole);
        Failure::usage(format!(
            "the {what} is not JSON: {reason} (line {}, column {})",
            error.line(),
            error.column()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn said(typed: &str) -> String {
        match read(typed, "payload", 64, &mut &b"[1,\n2,}"[..]) {
            Ok(json) => format!("{}\n", json.get()),
            Err(failure) => format!("{}exit {}\n", failure.render(false), failure.code()),
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let long = format!("\"{}\"", "x".repeat(63));
        let texts =
            ["{\"a\": 1}", " 7 ", "{\"a\": 1,}", "-", "", "orders", "[1] 2", "@/no/such", &long];
        expect![[r#"
            {"a": 1}
            7
            error: the payload is not JSON: key must be a string (line 1, column 9)
            exit 2
            error: the payload is not JSON: expected value (line 2, column 3)
            exit 2
            error: the payload is not JSON: EOF while parsing a value (line 1, column 0)
            exit 2
            error: the payload is not JSON: expected value (line 1, column 1)
              text is written with its quotes: '"orders"'; a file is @orders
            exit 2
            error: the payload is not JSON: trailing characters (line 1, column 5)
            exit 2
            error: cannot read the payload from /no/such: No such file or directory (os error 2)
            exit 2
            error: the payload has 65 bytes, and 64 is the most
              put the data into a file and its path into the payload
            exit 2
        "#]]
        .assert_eq(&texts.map(said).concat());
    }
}
