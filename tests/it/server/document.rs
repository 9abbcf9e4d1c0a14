//! `spec/api.md` against the code.

use super::fixture::Server;
use midwatch::api::Code;

const DOCUMENT: &str = include_str!("../../../spec/api.md");

#[test]
fn the_document_has_every_code_and_no_other() {
    let rows = DOCUMENT.lines().filter_map(|line| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, code, status, exit, ..] = cells[..] else { return None };
        status.parse::<u16>().ok().map(|status| (code.trim_matches('`'), status, exit))
    });
    let told: Vec<_> = rows.map(|(code, status, exit)| format!("{code} {status} {exit}")).collect();
    let known = Code::ALL.iter();
    let known: Vec<_> =
        known.map(|code| format!("{} {} {}", code.word(), code.status(), code.exit())).collect();
    assert_eq!(told, known);
}

#[test]
fn every_route_of_the_document_exists() {
    let server = Server::start();
    let mut count = 0;
    for line in DOCUMENT.lines() {
        let Some(route) = line.strip_prefix("| `").and_then(|rest| rest.split('`').next()) else {
            continue;
        };
        let Some((method, path)) = route.split_once(" /") else { continue };
        // Sent without a body: whatever is missing then, it is not the route.
        let path = format!("/{}", path.replace("{id}", "7"));
        if path == "/v1/events" {
            continue;
        }
        let answer = server.send(method, &path, "application/json", b"");
        assert!(!answer.text().contains("no_such_route"), "{route}: {}", answer.text());
        count += 1;
    }
    assert!(20 < count, "only {count} routes were found");
}
