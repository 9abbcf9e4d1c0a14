//! Whether nothing was lost, from the files that the handler wrote. Knows no daemon.

use crate::units::count;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// One thing that had to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) holds: bool,
    pub(super) words: String,
}

impl Finding {
    pub(super) fn new(holds: bool, words: impl Into<String>) -> Self {
        Self { holds, words: words.into() }
    }
}

/// The lines that the handler should have written, once each: number, words, line.
fn expected(text: &str) -> Vec<String> {
    let numbered = (1..).zip(text.lines());
    numbered.map(|(n, line)| format!("{n}\t{}\t{line}", line.split_whitespace().count())).collect()
}

/// Every line of `text` stands in `out`, as it should, at most one batch of them twice.
///
/// A handler that is killed may leave one line cut short; its successor writes it again.
pub(super) fn lines(text: &str, out: &str, batch: usize, killed: usize) -> Vec<Finding> {
    let expected = expected(text);
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for line in &expected {
        times.insert(line, 0);
    }
    let mut cut = 0;
    for line in out.lines() {
        match times.get_mut(line) {
            Some(times) => *times += 1,
            None => cut += 1,
        }
    }
    let of = |line: &String| times.get(line.as_str()).copied().unwrap_or(0);
    let lost = expected.iter().filter(|line| of(line) == 0).count();
    let too_often = expected.iter().filter(|line| 2 < of(line)).count();
    let mut twice: Vec<RangeInclusive<usize>> = Vec::new();
    for (index, chunk) in expected.chunks(batch).enumerate() {
        if chunk.iter().any(|line| 1 < of(line)) {
            let first = index * batch + 1;
            twice.push(first..=index * batch + chunk.len());
        }
    }
    let done = expected.len().saturating_sub(lost);
    vec![
        Finding::new(
            lost == 0 && cut <= killed,
            format!(
                "{} of {} lines processed, {lost} lost, {cut} cut short",
                number(done),
                number(expected.len())
            ),
        ),
        match twice.as_slice() {
            [] => Finding::new(true, "no batch was done twice"),
            [lines] => Finding::new(
                too_often == 0,
                format!(
                    "1 batch twice, lines {} to {}: in flight when its worker died",
                    number(*lines.start()),
                    number(*lines.end())
                ),
            ),
            many => Finding::new(false, format!("{} batches done twice", many.len())),
        },
    ]
}

/// The sum that travelled in the checkpoints is the sum.
pub(super) fn sum(text: &str, counted: Option<u64>) -> Finding {
    let words = number(text.split_whitespace().count());
    match counted.map(count) {
        Some(counted) => Finding::new(
            counted == words,
            format!("{counted} words by way of the checkpoints, {words} counted anew"),
        ),
        None => Finding::new(false, format!("no result; {words} words counted anew")),
    }
}

/// No attempt left a mark after the first mark of its successor, and the attempts that left marks
/// are those of the journal, in its order.
pub(super) fn overlaps(marks: &str, journal: &[u64]) -> Finding {
    let mut fences: Vec<u64> = Vec::new();
    let mut overlap = false;
    for mark in marks.lines() {
        let Some(fence) = mark.split(' ').next().and_then(|fence| fence.parse().ok()) else {
            return Finding::new(false, format!("a mark that nobody makes: {mark}"));
        };
        if fences.last() != Some(&fence) {
            overlap |= fences.iter().any(|earlier| fence <= *earlier);
            fences.push(fence);
        }
    }
    let list = fences.iter().map(u64::to_string).collect::<Vec<_>>().join(" < ");
    if overlap {
        return Finding::new(false, format!("attempts overlap: their fences are {list}"));
    }
    let is_known = fences.iter().all(|fence| journal.contains(fence));
    let count = fences.len();
    Finding::new(
        is_known && 1 <= count,
        format!("{count} attempts, each begun after the one before was dead: fences {list}"),
    )
}

fn number(n: usize) -> String {
    count(u64::try_from(n).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "of mans\nfirst\n\ndisobedience and the\nfruit\n";

    fn check(out: &[&str]) -> [bool; 2] {
        let findings = lines(TEXT, &out.join("\n"), 2, 1);
        [findings[0].holds, findings[1].holds]
    }

    const WHOLE: [&str; 5] =
        ["1\t2\tof mans", "2\t1\tfirst", "3\t0\t", "4\t3\tdisobedience and the", "5\t1\tfruit"];

    #[test]
    fn every_line_once_holds() {
        assert_eq!(check(&WHOLE), [true, true]);
    }

    #[test]
    fn a_lost_or_wrong_line_does_not_hold() {
        assert_eq!(check(&WHOLE[1..]), [false, true]);
        let mut wrong = WHOLE;
        wrong[3] = "4\t2\tdisobedience and the";
        assert_eq!(check(&wrong), [false, true]);
    }

    #[test]
    fn one_batch_twice_holds_and_two_do_not() {
        let twice = |again: &[&'static str]| check(&[&WHOLE[..], again].concat());
        assert_eq!(twice(&WHOLE[2..4]), [true, true]);
        assert_eq!(twice(&WHOLE[2..3]), [true, true]);
        assert_eq!(twice(&WHOLE[1..3]), [true, false], "line 2 and line 3 are of two batches");
        assert_eq!(twice(&[WHOLE[0], WHOLE[0]]), [true, false], "three times is too often");
    }

    #[test]
    fn one_line_cut_short_is_the_mark_of_one_murder() {
        let cut = ["1\t2\tof mans", "2\t1\tfir"];
        assert_eq!(check(&[&cut[..], &WHOLE].concat()), [true, true]);
        assert_eq!(check(&[&cut[..], &cut, &WHOLE].concat()), [false, false]);
    }

    #[test]
    fn marks_of_one_attempt_between_marks_of_another_are_an_overlap() {
        assert!(overlaps("4 start 0\n4 begin 1 2\n9 start 0\n9 end 5\n", &[4, 9]).holds);
        assert!(!overlaps("4 start 0\n9 start 0\n4 wrote 1 2\n9 end 5\n", &[4, 9]).holds);
        assert!(!overlaps("9 start 0\n4 start 0\n", &[4, 9]).holds, "fences only grow");
        assert!(!overlaps("4 start 0\n", &[9]).holds, "the journal knows of no fence 4");
        assert!(!overlaps("", &[]).holds);
    }

    #[test]
    fn the_poem_is_what_the_demo_says_it_is() {
        assert_eq!(super::super::TEXT.lines().count(), 10_600);
        assert!(sum(super::super::TEXT, Some(79_655)).holds);
        assert!(!sum(super::super::TEXT, Some(79_656)).holds);
        assert!(!sum(super::super::TEXT, None).holds);
    }
}
