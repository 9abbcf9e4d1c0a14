//! Which known word somebody may have meant.

/// The word of `known` that is nearest to `typed`, if one is near enough to be a likely slip: at
/// most a third of its letters differ.
pub(crate) fn nearest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.map(|word| (distance(typed, word), word));
    let near = distances.filter(|(distance, word)| *distance * 3 <= word.chars().count().max(3));
    near.min().map(|(_, word)| word)
}

/// Letters to insert, remove, replace, or swap with their neighbour, to turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut previous = None;
    for (row, letter) in a.chars().enumerate() {
        let mut current = vec![row + 1];
        for (column, other) in b.iter().enumerate() {
            let at = |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX);
            let replaced = at(&last, column) + usize::from(letter != *other);
            let removed = at(&last, column + 1) + 1;
            let inserted = at(&current, column) + 1;
            let mut least = replaced.min(removed).min(inserted);
            let neighbour = column.checked_sub(1).and_then(|index| b.get(index));
            if previous == Some(*other) && neighbour == Some(&letter) && 0 < column {
                least = least.min(at(&before_last, column - 1).saturating_add(1));
            }
            current.push(least);
        }
        previous = Some(letter);
        before_last = std::mem::replace(&mut last, current);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_its_word_and_a_stranger_finds_none() {
        let known = ["timeout", "command", "cwd", "env", "retry"];
        let of = |typed| nearest(typed, known.into_iter());
        assert_eq!(of("timeuot"), Some("timeout"));
        assert_eq!(of("time_out"), Some("timeout"));
        assert_eq!(of("commnad"), Some("command"));
        assert_eq!(of("cdw"), Some("cwd"));
        assert_eq!(of("retries"), None);
        assert_eq!(of("retri"), Some("retry"));
        assert_eq!(of("banana"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn distances_count_swaps_as_one() {
        assert_eq!(distance("", ""), 0);
        assert_eq!(distance("abc", "abc"), 0);
        assert_eq!(distance("acb", "abc"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
