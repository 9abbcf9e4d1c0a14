use super::*;

fn all() -> impl Iterator<Item = Facts> {
    (0..32_u8).map(|bits| {
        let bit = |at: u8| bits >> at & 1 == 1;
        Facts { intact: bit(0), blank: bit(1), later_synced: bit(2), named: bit(3), full: bit(4) }
    })
}

// spec: REC-010
#[test]
fn each_combination_of_facts_has_exactly_one_row() {
    for facts in all() {
        let rows: String =
            TABLE.iter().filter(|row| row.matches(facts)).map(|row| row.letter).collect();
        assert_eq!(rows.len(), 1, "{facts:?} has rows {rows:?}");
    }
}

#[test]
fn each_row_is_reached() {
    for row in &TABLE {
        assert!(all().any(|facts| row.matches(facts)), "row {}", row.letter);
    }
}

#[test]
fn nothing_that_was_durable_is_ever_disregarded() {
    for facts in all().filter(|facts| !facts.intact && (facts.named || facts.later_synced)) {
        assert!(matches!(decide(facts), Decision::Damage | Decision::Impossible), "{facts:?}");
    }
}

#[test]
fn the_document_prints_the_same_rows() {
    let text = std::fs::read_to_string("spec/recovery.md").unwrap();
    let word = |column: Option<bool>| match column {
        Some(true) => "yes",
        Some(false) => "no",
        None => "any",
    };
    for row in &TABLE {
        let line = format!(
            "| {} | {} | {} | {} | {} | {} | {:?} |",
            row.letter,
            word(row.intact),
            word(row.blank),
            word(row.later_synced),
            word(row.named),
            word(row.full),
            row.decision
        );
        assert!(text.contains(&line), "spec/recovery.md lacks {line}");
    }
}
