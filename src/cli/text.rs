//! Text on a terminal: how wide it is, how it is cut, and what is never let through.

use ratatui::text::Span;

/// Columns that `text` takes on a terminal: two for the letters of East Asian scripts and for
/// pictographs, none for what combines, one for the rest. A terminal that draws several letters as
/// one picture takes fewer, never more.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(letter_width).sum()
}

fn letter_width(letter: char) -> usize {
    if letter.is_ascii() {
        return 1;
    }
    // The tables of the crate that draws `midwatch top`: there is one truth about widths.
    Span::raw(&*letter.encode_utf8(&mut [0; 4])).width()
}

/// Marks that may stand on one letter: no script needs more, and a heap of them climbs over the
/// lines around it.
const MARKS_MAX: usize = 4;

/// `text` as each of its letters by itself: without what joins letters into one picture or changes
/// how wide one is, for terminals differ about that.
pub(crate) fn plain(text: &str) -> String {
    let mut marks = 0;
    let stays = |letter: &char| {
        let joins = matches!(*letter,
            '\u{200B}'..='\u{200F}' | '\u{2060}'..='\u{2064}' | '\u{FE00}'..='\u{FE0F}'
            | '\u{FEFF}' | '\u{1F3FB}'..='\u{1F3FF}' | '\u{E0000}'..='\u{E0FFF}');
        marks = if letter_width(*letter) == 0 { marks + 1 } else { 0 };
        !joins && marks <= MARKS_MAX
    };
    text.chars().filter(stays).collect()
}

/// `text` without its first `columns`.
pub(crate) fn pan(text: &str, columns: usize) -> String {
    let mut passed = 0;
    let passes = |letter: &char| {
        let before = passed;
        passed += letter_width(*letter);
        before < columns
    };
    text.chars().skip_while(passes).collect()
}

/// `text`, cut to `columns` with an ellipsis where it is wider.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut room = columns.saturating_sub(1);
    let mut short = String::new();
    for letter in text.chars() {
        let Some(left) = room.checked_sub(letter_width(letter)) else { break };
        room = left;
        short.push(letter);
    }
    if columns != 0 {
        short.push('…');
    }
    short
}

/// Every line of `text` cut to `columns`. Our own colours take no room, and end where a line is cut.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    let mut fitted = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let bare: String = pieces(line).map(|(_, text)| text).collect();
        if width(&bare) <= columns {
            fitted += line;
        } else {
            let mut room = columns;
            for (colour, text) in pieces(line) {
                let more = room < width(&bare) && room <= width(text);
                fitted += colour;
                fitted += &if more { cut(&format!("{text}…"), room) } else { text.to_owned() };
                room = room.saturating_sub(width(text));
                if more {
                    break;
                }
            }
            if line.contains('\u{1b}') {
                fitted += "\u{1b}[0m";
            }
        }
        fitted += end;
    }
    fitted
}

/// A line in pieces: a sequence that colours, and the text behind it.
fn pieces(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let starts = line.match_indices("\u{1b}[").map(|(at, _)| at);
    let mut bounds: Vec<_> = std::iter::once(0).chain(starts).chain([line.len()]).collect();
    bounds.dedup();
    let parts: Vec<_> = bounds
        .windows(2)
        .filter_map(|pair| line.get(*pair.first()?..*pair.last()?))
        .map(|part| {
            let end = part.strip_prefix("\u{1b}[").and_then(|rest| rest.find('m')).map(|at| at + 3);
            part.split_at(end.unwrap_or(0))
        })
        .collect();
    parts.into_iter()
}

/// `text` on one line and without control characters, so that nothing a handler or a submitter
/// wrote can move the cursor, hide a line or recolour the screen.
pub(crate) fn tame(text: &str) -> String {
    let mut tamed = String::with_capacity(text.len());
    for letter in text.trim_end().chars() {
        match letter {
            '\n' | '\r' | '\t' => tamed.push(' '),
            // Bidirectional overrides reorder what is around them.
            '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => tamed.push('�'),
            letter if letter.is_control() => tamed.extend(letter.escape_default()),
            letter => tamed.push(letter),
        }
    }
    tamed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_letters_count_twice_and_marks_not_at_all() {
        assert_eq!(width("abc"), 3);
        assert_eq!(width("夜班"), 4);
        assert_eq!(width("e\u{301}"), 1);
    }

    #[test]
    fn pictures_of_several_letters_fall_apart() {
        assert_eq!(plain("a\u{200d}\u{fe0f}b"), "ab");
        assert_eq!(plain("👩\u{200d}🚀 👍🏽"), "👩🚀 👍");
        assert_eq!(plain(&format!("e{}x", "\u{301}".repeat(40))).chars().count(), 6);
        assert_eq!((width("🚀"), pan("夜班x", 2), pan("夜班x", 3)), (2, "班x".into(), "x".into()));
    }

    #[test]
    fn a_cut_never_exceeds_its_columns() {
        for columns in 0..12 {
            for text in ["", "abc", "夜班巡查员", "a夜b班c", "connection refused"] {
                assert!(width(&cut(text, columns)) <= columns, "{text} {columns}");
            }
        }
        assert_eq!(cut("connection refused", 11), "connection…");
        assert_eq!(cut("connection", 10), "connection");
    }

    #[test]
    fn a_line_is_cut_beside_its_colours() {
        let red = "\u{1b}[31mred\u{1b}[0m and 夜班\n";
        assert_eq!(fit(red, 12), red);
        assert_eq!(fit(red, 11), "\u{1b}[31mred\u{1b}[0m and 夜…\u{1b}[0m\n");
        assert_eq!(fit(red, 3), "\u{1b}[31mre…\u{1b}[0m\n");
        assert_eq!(fit("plain text\nshort\n", 5), "plai…\nshort\n");
    }

    #[test]
    fn escape_sequences_become_visible() {
        assert_eq!(tame("a\u{1b}[2Jb\nc\t\u{202e}d\n"), "a\\u{1b}[2Jb c �d");
    }
}
