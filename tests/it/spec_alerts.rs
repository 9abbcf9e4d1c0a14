//! `spec/alerts.md` against the code: every rule, and what to do about it.

use midwatch::kernel::alerts::Rule;
use std::collections::BTreeMap;
use std::fs;

fn rows(heading: &str) -> BTreeMap<String, String> {
    let page = fs::read_to_string("spec/alerts.md").unwrap();
    let part = page.split(heading).nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = part.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    rows.map(|(rule, rest)| (rule.to_owned(), rest.trim_end_matches(" |").to_owned())).collect()
}

#[test]
fn every_rule_has_its_row_and_its_remedy_as_the_code_has_it() {
    let actions = rows("\n## What to do\n");
    let rules = rows("\n## What an alert is\n");
    for rule in Rule::ALL {
        assert_eq!(actions.get(rule.word()).map(String::as_str), Some(rule.action()), "{rule}");
        assert!(rules.contains_key(rule.word()), "{rule} has no row");
    }
    assert_eq!((actions.len(), rules.len()), (Rule::ALL.len(), Rule::ALL.len()));
}
