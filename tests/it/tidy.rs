//! What no compiler checks: which floor imports which, which crate it may use, and that the
//! documents and the code name the same things.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Each folder or file of `src/`, and what of the crate it may import. A longer path opens no more
/// than that part.
const FLOORS: &[(&str, &[&str])] = &[
    ("limits", &[]),
    ("defect", &[]),
    ("units", &["kernel::ids"]),
    ("kernel", &["limits", "defect"]),
    ("journal", &["limits", "defect"]),
    ("engine", &["kernel", "journal", "limits", "units", "defect"]),
    ("api", &["kernel::ids", "kernel::status", "kernel::task", "limits"]),
    (
        "config",
        &[
            "kernel::alerts",
            "kernel::calendar",
            "kernel::ids",
            "kernel::rules",
            "kernel::schedule",
            "kernel::task_type",
            "journal",
            "limits",
            "units",
        ],
    ),
    ("clock", &["kernel::ids", "kernel::event", "kernel::Head", "process"]),
    ("client", &["api", "units", "limits"]),
    ("process", &["api", "kernel::ids", "limits"]),
    ("alerts", &["api", "config", "clock", "process", "kernel::ids", "kernel::text"]),
    (
        "server",
        &[
            "alerts", "engine", "kernel", "journal", "api", "config", "process", "clock", "units",
            "limits",
        ],
    ),
    (
        "worker",
        &["api", "client", "config", "process", "units", "limits", "kernel::ids", "kernel::status"],
    ),
    ("supervisor", &["process", "config"]),
    // Its last act reads the journal as the journal tool does.
    (
        "demo",
        &[
            "api",
            "client",
            "config",
            "engine",
            "journal",
            "kernel",
            "limits",
            "supervisor",
            "units",
        ],
    ),
    (
        "cli",
        &[
            "api",
            "client",
            "config",
            "clock",
            "demo",
            "engine",
            "journal",
            "kernel",
            "limits",
            "process",
            "server",
            "supervisor",
            "units",
            "worker",
        ],
    ),
    ("sim", &["engine", "kernel", "journal", "limits", "units"]),
];

/// The crates from elsewhere that each may use.
const CRATES: &[(&str, &[&str])] = &[
    ("limits", &[]),
    ("defect", &[]),
    ("units", &["chrono"]),
    ("kernel", &["chrono", "chrono_tz", "croner", "minicbor", "serde", "sha2"]),
    ("journal", &["crc32fast", "fs2", "memmap2", "rustix"]),
    ("engine", &["minicbor", "serde_json", "sha2"]),
    ("api", &["minicbor", "serde", "serde_json"]),
    ("config", &["chrono_tz", "notify", "rustix", "serde", "serde_json", "tokio", "toml"]),
    ("clock", &["rand", "rustix"]),
    (
        "client",
        &["http_body_util", "hyper", "hyper_util", "serde", "serde_json", "tokio", "tracing"],
    ),
    ("process", &["command_fds", "fs2", "libc", "rand", "rustix", "tokio"]),
    (
        "alerts",
        &["data_encoding", "hmac", "rustix", "rustls", "serde_json", "sha2", "tracing", "ureq"],
    ),
    (
        "server",
        &[
            "axum",
            "data_encoding",
            "chrono",
            "chrono_tz",
            "fs2",
            "hmac",
            "http_body_util",
            "hyper",
            "hyper_util",
            "jsonschema",
            "notify",
            "prometheus_client",
            "rand",
            "rustix",
            "serde",
            "serde_json",
            "sha2",
            "tokio",
            "tracing",
        ],
    ),
    ("worker", &["fs2", "rand", "rustix", "serde", "serde_json", "tokio", "tracing"]),
    ("supervisor", &["command_fds", "libc", "rustix", "tracing"]),
    ("demo", &["rustix", "serde", "serde_json", "toml", "tracing"]),
    (
        "cli",
        &[
            "clap",
            "clap_complete",
            "clap_mangen",
            "flate2",
            "fs2",
            "ratatui",
            "rustix",
            "serde",
            "serde_json",
            "tokio",
            "toml",
            "tracing",
            "tracing_subscriber",
        ],
    ),
    ("sim", &["rustix"]),
];

fn files(dir: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    let files =
        paths.flat_map(|path| if path.is_dir() { files(&path, endings) } else { vec![path] });
    let wanted = |path: &PathBuf| {
        path.extension().is_some_and(|ending| endings.iter().any(|wanted| ending == *wanted))
    };
    let mut files: Vec<_> = files.filter(wanted).collect();
    files.sort();
    files
}

/// The sources of one floor: its folder, or its one file.
fn sources(floor: &str) -> Vec<PathBuf> {
    let file = PathBuf::from(format!("src/{floor}.rs"));
    if file.exists() { vec![file] } else { files(&Path::new("src").join(floor), &["rs"]) }
}

fn is_test(file: &Path) -> bool {
    file.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
}

/// The lines of a file that are code, with their numbers.
fn code(file: &Path) -> Vec<(usize, String)> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().map(|line| line.split("//").next().unwrap().to_owned());
    (1..).zip(lines).filter(|(_, line)| !line.trim().is_empty()).collect()
}

#[test]
fn every_part_of_the_house_is_on_a_floor() {
    let named: BTreeSet<_> = FLOORS.iter().map(|(floor, _)| (*floor).to_owned()).collect();
    let found = fs::read_dir("src").unwrap().map(|entry| entry.unwrap().path());
    let found = found.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
    let found: BTreeSet<_> = found.filter(|name| name != "lib" && name != "main").collect();
    let homeless: Vec<_> = found.difference(&named).collect();
    assert!(homeless.is_empty(), "no row in FLOORS: {homeless:?}");
    let with_crates: BTreeSet<_> = CRATES.iter().map(|(floor, _)| (*floor).to_owned()).collect();
    assert_eq!(named, with_crates);
}

#[test]
fn no_floor_imports_a_floor_above_it() {
    let mut wrong = Vec::new();
    for (floor, allowed) in FLOORS {
        for file in sources(floor) {
            for (number, line) in code(&file) {
                let place = format!("{}:{number}", file.display());
                wrong.extend(
                    forbidden(&line, floor, allowed).map(|what| format!("{place}: {what}")),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a line of a floor imports and may not.
fn forbidden(line: &str, floor: &str, allowed: &[&str]) -> impl Iterator<Item = String> {
    let fits = |path: &str, allowed: &str| {
        path.strip_prefix(allowed).is_some_and(|rest| !rest.starts_with(is_word))
    };
    let reports = line.split("crate::").skip(1).filter_map(|path| {
        if path.starts_with('{') {
            return Some("names several floors in one `use`: write one line each".to_owned());
        }
        let may = fits(path, floor) || allowed.iter().any(|allowed| fits(path, allowed));
        (!may).then(|| format!("{floor} may not use {path}"))
    });
    reports.collect::<Vec<_>>().into_iter()
}

#[test]
fn the_check_of_the_floors_sees_what_it_should() {
    let seen = |line| forbidden(line, "api", &["kernel::ids", "limits"]).count();
    for fine in ["use crate::kernel::ids::Seq;", "use crate::limits::A;", "crate::api::Code", "x()"]
    {
        assert_eq!(seen(fine), 0, "{fine}");
    }
    for wrong in ["use crate::kernel::State;", "use crate::kernel::ids_too;", "use crate::{a, b};"]
    {
        assert_eq!(seen(wrong), 1, "{wrong}");
    }
    assert!(uses("use serde_json::Value;", "serde_json") && uses("#[derive(serde::S)]", "serde"));
    assert!(!uses("use serde_json::Value;", "serde") && !uses("use crate::toml::X;", "toml"));
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The names of the dependencies as the code writes them.
fn dependencies() -> Vec<String> {
    let manifest = fs::read_to_string("Cargo.toml").unwrap();
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap();
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split_once(" = ")).map(|(name, _)| name);
    names.filter(|name| !name.starts_with('#')).map(|name| name.replace('-', "_")).collect()
}

#[test]
fn no_floor_uses_a_crate_it_may_not_know() {
    let dependencies = dependencies();
    assert!(10 < dependencies.len(), "{dependencies:?}");
    let mut wrong = Vec::new();
    for (floor, allowed) in CRATES {
        for file in sources(floor).into_iter().filter(|file| !is_test(file)) {
            for (number, line) in code(&file) {
                let foreign = dependencies.iter().filter(|name| !allowed.contains(&name.as_str()));
                for name in foreign.filter(|name| uses(&line, name)) {
                    wrong.push(format!("{}:{number}: {floor} may not use {name}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a line names a crate as the start of a path.
fn uses(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = &line[at + name.len()..];
        !before.is_some_and(|c| is_word(c) || c == ':') && after.starts_with("::")
    })
}

/// Numbers of the form `[JRN-001]` with the lines that name them.
fn numbers(paths: &[PathBuf], mark: impl Fn(&str) -> Vec<String>) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::<_, Vec<_>>::new();
    for path in paths {
        for (number, line) in (1..).zip(fs::read_to_string(path).unwrap().lines()) {
            for name in mark(line) {
                found.entry(name).or_default().push(format!("{}:{number}", path.display()));
            }
        }
    }
    found
}

/// The words of a line that look like `JRN-001`.
fn requirement_ids(line: &str) -> Vec<String> {
    let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    let is_id = |word: &&str| {
        word.split_once('-').is_some_and(|(letters, digits)| {
            letters.len() == 3
                && letters.bytes().all(|byte| byte.is_ascii_uppercase())
                && digits.len() == 3
                && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    words.filter(is_id).map(str::to_owned).collect()
}

#[test]
fn every_numbered_sentence_is_tested_and_every_mention_has_its_sentence() {
    let bracketed = |line: &str| -> Vec<String> {
        let ids = requirement_ids(line).into_iter();
        ids.filter(|id| line.contains(&format!("[{id}]"))).collect()
    };
    let said = numbers(&files(Path::new("spec"), &["md"]), bracketed);
    let mentions = |line: &str| match line.split_once("spec: ") {
        Some((_, rest)) => requirement_ids(rest),
        None => bracketed(line),
    };
    let code: Vec<_> =
        ["src", "tests", "tools"].iter().flat_map(|dir| files(Path::new(dir), &["rs"])).collect();
    let code: Vec<_> = code.into_iter().filter(|file| !file.ends_with("it/tidy.rs")).collect();
    let mentioned = numbers(&code, mentions);
    assert!(50 < said.len(), "the pages have their numbers: {}", said.len());
    let twice: Vec<_> = said.iter().filter(|(_, places)| places.len() != 1).collect();
    assert!(twice.is_empty(), "numbers that stand twice: {twice:#?}");
    let untested: Vec<_> = said.iter().filter(|(id, _)| !mentioned.contains_key(*id)).collect();
    assert!(untested.is_empty(), "no test or code names these: {untested:#?}");
    let unsaid: Vec<_> = mentioned.iter().filter(|(id, _)| !said.contains_key(*id)).collect();
    assert!(unsaid.is_empty(), "spec/ does not have these: {unsaid:#?}");
}

#[test]
fn nothing_names_a_path_of_the_machine_it_was_written_on() {
    let mut wrong = Vec::new();
    let folders = ["src", "spec", "tests", "tools", "fuzz", "examples", "clients", "packaging"];
    let endings = ["rs", "md", "py", "sh", "toml", "cddl", "txt", "service", "yaml"];
    let mut paths: Vec<_> =
        folders.iter().flat_map(|dir| files(Path::new(dir), &endings)).collect();
    paths.extend(
        files(Path::new("."), &endings)
            .into_iter()
            .filter(|path| path.parent() == Some(Path::new("."))),
    );
    for path in paths.iter().filter(|path| !path.ends_with("it/tidy.rs")) {
        let text = fs::read_to_string(path).unwrap();
        for (number, line) in (1..).zip(text.lines()) {
            for foreign in [env!("CARGO_MANIFEST_DIR"), "/root/", "/home/user/"] {
                if line.contains(foreign) {
                    wrong.push(format!("{}:{number}: {foreign}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// W66, W68, W70: a file cut under a mapping is a signal; a page can change after it was checked.
#[test]
fn nothing_is_ever_written_through_a_mapping_and_the_daemon_maps_no_file_that_grows() {
    let writable = ["MmapMut", "map_mut", "map_copy", "map_anon", "MmapRaw"];
    let mut wrong = Vec::new();
    for file in
        files(Path::new("src"), &["rs"]).into_iter().chain(files(Path::new("tools"), &["rs"]))
    {
        for (number, line) in code(&file) {
            let place = || format!("{}:{number}: {line}", file.display());
            if writable.iter().any(|word| line.contains(word)) {
                wrong.push(place());
            }
            // What the writer of the journal and the engine hold open.
            let writes = ["active.rs", "writer.rs", "floor.rs", "reserve.rs"];
            let writes = writes.iter().any(|name| file.ends_with(name))
                || file.starts_with("src/engine")
                || file.starts_with("src/server");
            if writes && line.contains("memmap2") {
                wrong.push(place());
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// W57: one writer; whoever else has a hand in it changes another directory.
#[test]
fn the_directory_of_the_segments_is_changed_by_the_writer_alone() {
    let mut named = BTreeSet::new();
    for file in sources("journal").into_iter().filter(|file| !is_test(file)) {
        let names = |(_, line): &(usize, String)| {
            line.contains("JOURNAL_DIR") || line.contains("segment_path(")
        };
        if code(&file).iter().any(names) {
            named.insert(file.file_name().unwrap().to_str().unwrap().to_owned());
        }
    }
    assert!(named.contains("active.rs") && named.contains("compact.rs"), "{named:?}");
    assert!(!named.contains("snapshot.rs"), "snapshots are written beside the writer");
}

// W58: a panic ran the clean end, and the next start trusted the files.
#[test]
fn nothing_closes_the_journal_but_an_end_that_was_asked_for() {
    let mut wrong = Vec::new();
    for floor in ["kernel", "journal", "engine", "server"] {
        for file in sources(floor).into_iter().filter(|file| !is_test(file)) {
            let mut in_drop = false;
            for (number, line) in code(&file) {
                in_drop = in_drop && line != "}" || line.contains("Drop for");
                let closes = ["close(", "commit(", "floor.update("];
                if in_drop && closes.iter().any(|call| line.contains(call)) {
                    wrong.push(format!("{}:{number}: {line}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The cells of the table rows of a page.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn the_page_of_errors_has_every_code_as_the_code_has_it() {
    use midwatch::api::Code;

    let page = fs::read_to_string("spec/errors.md").unwrap();
    let documented: Vec<_> =
        rows(&page).into_iter().filter(|row| row.len() == 4).map(|row| row.join(" | ")).collect();
    let head = "code | HTTP | exit | what it says";
    let in_code = Code::ALL.iter().map(|code| {
        format!("{} | {} | {} | {}", code.word(), code.status(), code.exit(), code.title())
    });
    let expected: Vec<_> = std::iter::once(head.to_owned()).chain(in_code).collect();
    assert_eq!(documented, expected);
}

#[test]
fn every_refusal_of_the_journal_has_its_heading() {
    let page = fs::read_to_string("spec/errors.md").unwrap();
    let headings: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("### MW-")).collect();
    let source = fs::read_to_string("src/journal/error.rs").unwrap();
    let in_code: Vec<_> =
        source.split("\"MW-").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    let documented: Vec<_> =
        headings.iter().map(|heading| heading.split(':').next().unwrap()).collect();
    assert_eq!(documented, in_code);
}

/// The words of a line that look like `F1` or `I21`.
fn proof_ids(line: &str) -> Vec<String> {
    let words = line.split(|c: char| !is_word(c));
    let is_id = |word: &&str| {
        let digits = word.strip_prefix(['F', 'I']);
        digits.is_some_and(|digits| digits.parse::<u8>().is_ok_and(|number| 0 < number))
    };
    words.filter(is_id).map(str::to_owned).collect()
}

#[test]
fn every_fault_and_invariant_has_its_test_and_every_named_test_is_there() {
    let page = fs::read_to_string("spec/proof.md").unwrap();
    let listed: BTreeSet<_> = rows(&page).iter().flat_map(|row| proof_ids(row[0])).collect();
    let all = (1..=18).map(|n| format!("F{n}")).chain((1..=22).map(|n| format!("I{n}")));
    assert_eq!(listed, all.collect());
    let code: Vec<_> =
        ["src", "tests"].iter().flat_map(|dir| files(Path::new(dir), &["rs"])).collect();
    let code: Vec<_> = code.into_iter().filter(|file| !file.ends_with("it/tidy.rs")).collect();
    let marks =
        |line: &str| line.split_once("// proof: ").map_or(vec![], |(_, ids)| proof_ids(ids));
    let marked: BTreeSet<_> = numbers(&code, marks).into_keys().collect();
    assert_eq!(marked, listed, "numbers in tests, and on the page");

    let quoted = page.split('`').skip(1).step_by(2);
    let mut named = 0;
    for test in quoted.filter(|word| word.chars().all(|c| is_word(c) || c == ':')) {
        let (module, function) = test.split_once("::").unwrap_or((test, ""));
        let path = format!("tests/sim/{module}.rs");
        let Ok(source) = fs::read_to_string(&path) else {
            assert!(function.is_empty() && test == "tidy", "{path}, for {test}");
            continue;
        };
        assert!(source.contains("#[test]"), "{path} has no test");
        assert!(source.contains(&format!("fn {function}")), "{path} has no {function}");
        named += 1;
    }
    assert!(50 < named, "{named} tests are named");
}

// Every case of the page has tests that exist and name it.
#[test]
fn every_case_from_the_field_is_named_by_the_tests_beside_it() {
    let page = fs::read_to_string("spec/field.md").unwrap();
    let mut wrong = Vec::new();
    let mut cases = BTreeSet::new();
    for row in rows(&page).into_iter().filter(|row| row.len() == 3 && row[0] != "case") {
        let [case, _, tests] = row.as_slice() else { unreachable!("three cells") };
        if !cases.insert((*case).to_owned()) {
            wrong.push(format!("{case} stands there twice"));
        }
        let mut named = false;
        for test in tests.split(", ") {
            let Some((file, name)) = test.trim_matches('`').split_once("::") else {
                wrong.push(format!("{case}: `{test}` is no FILE::TEST"));
                continue;
            };
            let text = fs::read_to_string(file).unwrap_or_default();
            let Some((before, _)) = text.split_once(&format!("fn {name}(")) else {
                wrong.push(format!("{case}: there is no {name} in {file}"));
                continue;
            };
            let small = case.to_lowercase();
            // The name, or the comment right above the test.
            let above = before.rsplit("\n\n").next().unwrap();
            named |= name.split('_').any(|word| word == small) || above.contains(case);
        }
        if !named {
            wrong.push(format!("{case}: no test of it names it"));
        }
    }
    assert!(60 < cases.len(), "{}", cases.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
