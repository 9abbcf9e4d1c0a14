//! Text on a terminal: how wide it is, how it is cut, and what is never let through.

/// Columns that `text` takes on a terminal: two for the letters of East Asian scripts and for
/// pictographs, none for what combines, one for the rest.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(letter_width).sum()
}

fn letter_width(letter: char) -> usize {
    match u32::from(letter) {
        // Combining marks, zero-width characters, variation selectors.
        0x0300..=0x036F | 0x200B..=0x200F | 0x20D0..=0x20FF | 0xFE00..=0xFE0F => 0,
        // Hangul, kana, ideographs, full-width forms, pictographs.
        0x1100..=0x115F
        | 0x2E80..=0x303E
        | 0x3041..=0xA4CF
        | 0xAC00..=0xD7A3
        | 0xF900..=0xFAFF
        | 0xFE30..=0xFE6F
        | 0xFF00..=0xFF60
        | 0xFFE0..=0xFFE6
        | 0x1F300..=0x1F64F
        | 0x1F900..=0x1F9FF
        | 0x20000..=0x3FFFD => 2,
        _ => 1,
    }
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
    fn escape_sequences_become_visible() {
        assert_eq!(tame("a\u{1b}[2Jb\nc\t\u{202e}d\n"), "a\\u{1b}[2Jb c �d");
    }
}
