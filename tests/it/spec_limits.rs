//! `spec/limits.md` against the code: every bound stands there with its value, and with a test that
//! exists.

use midwatch::limits;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The bounds as the code has them, by name.
macro_rules! bounds {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), limits::$name)),*] };
}

const BOUNDS: &[(&str, usize)] = bounds![
    PAYLOAD_BYTES_MAX,
    RESULT_BYTES_MAX,
    CONTROL_LINE_BYTES_MAX,
    JSON_DEPTH_MAX,
    NAME_BYTES_MAX,
    ERROR_TEXT_BYTES_MAX,
    RATE_COUNT_MAX,
    MAX_RUNNING_MAX,
    REASON_BYTES_MAX,
    CRON_BYTES_MAX,
    AFTER_MAX,
    SETTLED_PER_STEP_MAX,
    BODY_BYTES_MAX,
    BULK_BODY_BYTES_MAX,
    INBOX_BATCH_MAX,
    INBOX_WAITED_MAX,
    DELIVERY_ID_BYTES_MAX,
    CONNECTIONS_MAX,
    TCP_CONNECTIONS_MAX,
    INPUTS_QUEUED_MAX,
    INPUTS_PER_TURN_MAX,
    LEASES_PER_REQUEST_MAX,
    TRANSITIONS_KEPT,
    ATTEMPTS_KEPT,
    FORGOTTEN_PER_RECORD_MAX,
    ARCHIVED_AT_ONCE_MAX,
    LIST_PAGE_MAX,
    LIST_VISITED_MAX,
    SCHEDULES_MAX,
    DECIDED_KEPT,
    TYPES_COUNTED_MAX,
    MINUTES_KEPT,
    QUARTERS_KEPT,
    FIRES_QUEUED_MAX,
    AHEAD_MAX,
    PLANNED_PER_RECORD_MAX,
];

fn rows() -> Vec<Vec<String>> {
    let page = fs::read_to_string("spec/limits.md").unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
    let cells =
        |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.map(cells).collect()
}

/// The number that a value in words begins with, its units counted.
fn number(value: &str) -> usize {
    let words: Vec<_> = value.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let digits = value.replace(',', "");
    let first = digits.split(' ').find_map(|word| word.parse::<usize>().ok()).unwrap();
    let unit = |word: &str| match word {
        "MiB" => 1 << 20,
        "KiB" => 1 << 10,
        _ => 1,
    };
    match words.as_slice() {
        ["1", "MiB", "and", "4", "KiB"] => (1 << 20) + (4 << 10),
        words => first * words.iter().map(|word| unit(word)).max().unwrap(),
    }
}

fn sources(dir: &Path, found: &mut String) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            *found += &fs::read_to_string(path).unwrap();
        }
    }
}

#[test]
fn every_bound_stands_on_the_page_with_its_value() {
    let rows = rows();
    for (name, value) in BOUNDS {
        let row = rows.iter().find(|row| row[2] == format!("`{name}`"));
        let row = row.unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(number(&row[1]), *value, "{name}: {}", row[1]);
    }
    let named: BTreeSet<_> =
        rows.iter().map(|row| row[2].as_str()).filter(|name| !name.is_empty()).collect();
    assert_eq!(named.len(), BOUNDS.len(), "{named:?}");
    let text = fs::read_to_string("src/limits.rs").unwrap();
    let in_code: BTreeSet<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("pub const ")?.split(':').next())
        .collect();
    assert_eq!(in_code, BOUNDS.iter().map(|(name, _)| *name).collect());
}

#[test]
fn every_bound_has_a_test_of_that_name() {
    let mut code = String::new();
    for dir in ["src", "tests"] {
        sources(Path::new(dir), &mut code);
    }
    for row in rows() {
        let [.., test] = row.as_slice() else { panic!("{row:?}") };
        let test = test.trim_matches('`');
        let stands = code.contains(&format!("#[test]\nfn {test}()"))
            || code.contains(&format!("#[test]\n    fn {test}()"));
        assert!(stands, "there is no test {test}");
    }
}
