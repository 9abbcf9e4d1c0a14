//! One line of the log, for people or for programs.

use crate::kernel::ids::Timestamp;
use crate::units::rfc3339;
use serde_json::Value;
use std::fmt;
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// Longest text of a message or a field, in bytes; what is more is cut.
const TEXT_BYTES_MAX: usize = 8 << 10;

/// What was said, by whom and when.
pub(super) struct Said {
    at: Timestamp,
    level: Level,
    message: String,
    fields: Vec<(String, Value)>,
}

impl Said {
    /// A word of the log's own.
    pub(super) fn own(message: String) -> Self {
        let at = crate::clock::wall();
        Self { at, level: Level::WARN, message, fields: Vec::new() }
    }

    /// The line in the form that is wanted.
    pub(super) fn line(&self, process: &str, json: bool) -> String {
        if json { self.json(process) } else { self.text(false) }
    }

    pub(super) const fn level(&self) -> Level {
        self.level
    }

    /// About what it takes while it waits.
    pub(super) fn bytes(&self) -> usize {
        let texts = self.fields.iter().map(|(_, value)| value.as_str().map_or(0, str::len));
        texts.fold(self.message.len() + 200, |sum, bytes| sum + bytes + 40)
    }

    /// Reads an event.
    pub(super) fn of(event: &Event<'_>, at: Timestamp) -> Self {
        let level = *event.metadata().level();
        let mut said = Self { at, level, message: String::new(), fields: Vec::new() };
        event.record(&mut said);
        said
    }

    /// The line for people, with its end.
    pub(super) fn text(&self, colour: bool) -> String {
        let ink = match self.level {
            Level::ERROR => "31",
            Level::WARN => "33",
            Level::INFO => "32",
            Level::DEBUG => "34",
            Level::TRACE => "35",
        };
        let mut line = rfc3339(self.at);
        let level = self.level.as_str();
        line += &if colour {
            format!(" \u{1b}[{ink}m{level:>5}\u{1b}[0m ")
        } else {
            format!(" {level:>5} ")
        };
        push_tame(&mut line, &self.message);
        for (name, value) in &self.fields {
            line.push(' ');
            line += name;
            line.push('=');
            match value {
                Value::String(text) if is_plain(text) => line += text,
                Value::String(text) => {
                    line.push('"');
                    push_escaped(&mut line, text);
                    line.push('"');
                }
                other => line += &other.to_string(),
            }
        }
        line.push('\n');
        line
    }

    /// The line for programs, with its end: the five fields that each line has, then what it is
    /// about, in the order in which it was said.
    pub(super) fn json(&self, process: &str) -> String {
        let own = [
            ("time", rfc3339(self.at).into()),
            ("level", self.level.as_str().to_ascii_lowercase().into()),
            ("process", process.into()),
            ("pid", std::process::id().into()),
            ("message", self.message.as_str().into()),
        ];
        let own = own.iter().map(|(name, value)| (*name, value));
        let fields = self.fields.iter().map(|(name, value)| (name.as_str(), value));
        let pair = |(name, value): (&str, &Value)| format!("{}:{value}", Value::from(name));
        let pairs: Vec<_> = own.chain(fields).map(pair).collect();
        let mut line = String::from("{");
        // What is wild is within quotes, where JSON can write it otherwise.
        for letter in pairs.join(",").chars() {
            if is_wild(letter) {
                line += &format!("\\u{:04x}", u32::from(letter));
            } else {
                line.push(letter);
            }
        }
        line + "}\n"
    }

    fn put(&mut self, field: &Field, value: Value) {
        let name = field.name();
        // One of ours must not be hidden.
        let name = match name {
            "time" | "level" | "process" | "pid" => format!("{name}_"),
            _ => name.to_owned(),
        };
        self.fields.push((name, value));
    }

    fn put_text(&mut self, field: &Field, text: String) {
        if field.name() == "message" {
            self.message = cut(text);
        } else {
            self.put(field, cut(text).into());
        }
    }
}

impl Visit for Said {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put_text(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put_text(field, format!("{value:?}"));
    }
}

fn cut(mut text: String) -> String {
    if TEXT_BYTES_MAX < text.len() {
        let whole = (0..=TEXT_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(whole.unwrap_or(0));
        text.push('…');
    }
    text
}

/// Whether a value is one word, which needs no quotes.
fn is_plain(text: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.:/+@%".contains(letter);
    !text.is_empty() && text.chars().all(plain)
}

/// Adds a message: on one line, and nothing in it moves the cursor or recolours the screen.
fn push_tame(line: &mut String, text: &str) {
    for letter in text.chars() {
        if is_wild(letter) {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
    }
}

fn push_escaped(line: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                line.push('\\');
                line.push(letter);
            }
            letter if is_wild(letter) => line.extend(letter.escape_default()),
            letter => line.push(letter),
        }
    }
}

/// Control characters, and those that reorder what is around them.
fn is_wild(letter: char) -> bool {
    let reorders = matches!(letter, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    letter.is_control() || reorders || matches!(letter, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::layer::{Context, SubscriberExt};

    struct Keep(Arc<Mutex<Vec<(String, String)>>>);

    impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Keep {
        fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
            let at = Timestamp(1_773_454_200_123);
            let text = Said::of(event, at).text(false);
            self.0.lock().unwrap().push((text, Said::of(event, at).json("engine")));
        }
    }

    fn told(say: impl FnOnce()) -> Vec<(String, String)> {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let subscriber = tracing_subscriber::registry().with(Keep(Arc::clone(&kept)));
        tracing::subscriber::with_default(subscriber, say);
        std::mem::take(&mut *kept.lock().unwrap())
    }

    #[test]
    fn a_line_tells_when_how_grave_what_and_about_what() {
        let lines = told(|| {
            tracing::warn!(task = 7, executor = "w1", error = "a \"bad\"\nthing", "task 7 failed");
        });
        let (text, json) = &lines[0];
        assert_eq!(
            text,
            "2026-03-14T02:10:00.123Z  WARN task 7 failed task=7 executor=w1 \
             error=\"a \\\"bad\\\"\\nthing\"\n"
        );
        let json: Value = serde_json::from_str(json).unwrap();
        assert_eq!(json["time"], "2026-03-14T02:10:00.123Z");
        assert_eq!((&json["level"], &json["process"]), (&"warn".into(), &"engine".into()));
        assert_eq!((&json["task"], &json["message"]), (&7.into(), &"task 7 failed".into()));
        assert_eq!(json["error"], "a \"bad\"\nthing");
    }

    #[test]
    fn whatever_is_said_is_one_line_and_moves_no_cursor_and_hides_no_field() {
        let wild = "a\u{1b}[2J\r\nb\u{202e}c\u{2028}d\u{0}\u{7f}";
        let lines = told(|| {
            tracing::info!(time = "mine", pid = 0, level = "x", note = wild, "{wild}");
            tracing::info!("{}", "ä".repeat(9000));
        });
        for (text, json) in &lines {
            for line in [text, json] {
                let body = line.strip_suffix('\n').unwrap();
                assert!(!body.chars().any(char::is_control), "{body:?}");
                assert!(body.len() < 2 * TEXT_BYTES_MAX + 500);
            }
            let json: Value = serde_json::from_str(json).unwrap();
            assert_eq!(json["time"], "2026-03-14T02:10:00.123Z");
            assert_eq!(json["pid"], std::process::id());
        }
        assert!(!lines[0].0.contains(['\u{202e}', '\u{2028}']), "{:?}", lines[0].0);
        let json: Value = serde_json::from_str(&lines[0].1).unwrap();
        assert_eq!((&json["note"], &json["message"]), (&wild.into(), &wild.into()));
        assert_eq!((&json["time_"], &json["pid_"]), (&"mine".into(), &0.into()));
        assert!(lines[1].0.ends_with("…\n"));
    }
}
