//! The one place where text becomes part of a page.
//!
//! Markup is a `&'static str`, which somebody wrote into this program; everything else goes through
//! [`Html::text`], so no payload, error, log or name can ever be taken for markup.

use std::fmt::{self, Display, Write};

/// A piece of a page.
#[derive(Debug, Default)]
pub(super) struct Html(String);

/// Puts pieces behind each other: literals are markup, expressions in parentheses are text.
macro_rules! put {
    (@ $to:expr, $markup:literal) => { $to.raw($markup) };
    (@ $to:expr, ($text:expr)) => { $to.text(&$text) };
    ($to:expr $(, $part:tt)+ $(,)?) => {{ $( put!(@ $to, $part); )+ }};
}
pub(super) use put;

impl Html {
    /// Markup that is part of the program.
    pub(super) fn raw(&mut self, markup: &'static str) {
        self.0.push_str(markup);
    }

    /// Any text, fit for an element and for a quoted attribute.
    pub(super) fn text(&mut self, text: impl Display) {
        // A `String` takes everything, and so fails only where a `Display` of ours does.
        if write!(Escaping(&mut self.0), "{text}").is_err() {
            self.0.push('\u{fffd}');
        }
    }

    /// As much of the text as fits into so many bytes of the page; whether that was all.
    pub(super) fn text_within(&mut self, text: &str, bytes: usize) -> bool {
        let begin = self.0.len();
        for c in text.chars() {
            if bytes < self.0.len() - begin + cost(c) {
                return false;
            }
            escape(c, &mut self.0);
        }
        true
    }

    /// Another piece behind this one.
    pub(super) fn append(&mut self, other: &Self) {
        self.0.push_str(&other.0);
    }

    /// How many bytes it has.
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    /// The page.
    pub(super) fn finish(self) -> String {
        self.0
    }
}

struct Escaping<'a>(&'a mut String);

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().for_each(|c| escape(c, self.0));
        Ok(())
    }
}

fn escape(c: char, to: &mut String) {
    match c {
        '&' => to.push_str("&amp;"),
        '<' => to.push_str("&lt;"),
        '>' => to.push_str("&gt;"),
        '"' => to.push_str("&quot;"),
        '\'' => to.push_str("&#39;"),
        '\n' | '\t' => to.push(c),
        _ if is_unseen(c) => to.extend(c.escape_unicode()),
        _ => to.push(c),
    }
}

/// What would not be seen, or would turn the order of what is read around.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        )
}

/// Bytes that a character may take at most.
fn cost(c: char) -> usize {
    match c {
        '&' | '\'' => 5,
        '"' => 6,
        '<' | '>' => 4,
        '\n' | '\t' => 1,
        _ if is_unseen(c) => 10,
        _ => c.len_utf8(),
    }
}

/// The first so many characters of a text, an ellipsis where it goes on.
pub(super) fn clip(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default().trim_end()),
    }
}

/// The last lines of a text that fit into so many bytes of a page.
pub(super) fn tail_within(text: &str, bytes: usize) -> &str {
    let mut taken = 0_usize;
    let mut begin = text.len();
    for (at, c) in text.char_indices().rev() {
        taken += cost(c);
        if bytes < taken {
            let tail = text.get(begin..).unwrap_or_default();
            // Not the end of a line that began before.
            return tail.split_once('\n').map_or(tail, |(_, whole)| whole);
        }
        begin = at;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn escaped(text: &str) -> String {
        let mut html = Html::default();
        html.text(text);
        html.finish()
    }

    #[test]
    fn what_could_be_markup_is_text() {
        assert_eq!(
            escaped("<b a=\"1\" c='2'>&amp;</b>"),
            "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;&lt;/b&gt;"
        );
        assert_eq!(escaped("a\u{202e}b\0c\u{1b}[1m"), "a\\u{202e}b\\u{0}c\\u{1b}[1m");
        let mut html = Html::default();
        put!(html, "<i title=\"", ("\"><script>"), "\">", (7), "</i>");
        assert_eq!(html.finish(), "<i title=\"&quot;&gt;&lt;script&gt;\">7</i>");
    }

    proptest! {
        #[test]
        fn no_text_whatever_leaves_the_place_it_was_put_in(text in "\\PC*|[<>&\"'\u{202e}\u{0}a\n]*") {
            let shown = escaped(&text);
            prop_assert!(!shown.contains(['<', '>', '"', '\'']));
            for (at, _) in shown.match_indices('&') {
                let entity = shown[at + 1..].split(';').next().unwrap();
                prop_assert!(["amp", "lt", "gt", "quot", "#39"].contains(&entity), "{}", shown);
            }
            prop_assert!(!shown.chars().any(is_unseen_but_for_lines));
            prop_assert!(shown.len() <= text.chars().map(cost).sum());
        }

        #[test]
        fn a_budget_is_kept_at_both_ends(text in "[<>&\"'\u{202e}\u{0}aé\n]{0,200}", bytes in 0..300_usize) {
            let mut html = Html::default();
            let all = html.text_within(&text, bytes);
            prop_assert!(html.len() <= bytes);
            prop_assert!(!all || html.finish() == escaped(&text));
            let tail = tail_within(&text, bytes);
            prop_assert!(text.ends_with(tail));
            prop_assert!(escaped(tail).len() <= bytes);
        }
    }

    fn is_unseen_but_for_lines(c: char) -> bool {
        is_unseen(c) && c != '\n' && c != '\t'
    }

    #[test]
    fn a_long_text_is_clipped_between_characters() {
        assert_eq!(clip("äöü", 3), "äöü");
        assert_eq!(clip("äö üx", 3), "äö…");
        assert_eq!(tail_within("one\ntwo\nthree\n", 12), "two\nthree\n");
    }
}
