//! `spec/records.md` and `spec/records.cddl` against the code, both ways.

use midwatch::engine::codec::{self, CodecError};
use midwatch::engine::dump::{kept_json, record_json};
use midwatch::kernel::ids::Seq;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The types that stand in records, by their names in the documents.
const MAPS: &[(&str, &str)] = &[
    ("submitted", "Submitted"),
    ("leased", "Leased"),
    ("heard", "Heard"),
    ("checkpointed", "Checkpointed"),
    ("ended", "Ended"),
    ("moved", "Moved"),
    ("stop_requested", "StopRequested"),
    ("hurried", "Hurried"),
    ("worker_joined", "WorkerJoined"),
    ("worker_moved", "WorkerMoved"),
    ("worker_changed", "WorkerChanged"),
    ("refused", "Refused"),
    ("started", "Started"),
    ("forgotten", "Forgotten"),
    ("type_paused", "TypePaused"),
    ("type_resumed", "TypeResumed"),
    ("type_limited", "TypeLimited"),
    ("edited", "Edited"),
    ("rate", "Rate"),
    ("type", "TaskType"),
    ("order", "Order"),
    ("spec", "TaskSpec"),
    ("held", "Held"),
    ("progress", "Progress"),
    ("registration", "Registration"),
    ("process", "ProcessId"),
    ("head", "Head"),
    ("worker", "Worker"),
    ("task", "Task"),
    ("extra", "Extra"),
    ("history", "Life"),
    ("transitions", "Transitions"),
    ("transition", "Transition"),
    ("attempt", "Attempt"),
    ("attempt-end", "AttemptEnd"),
    ("usage", "Usage"),
    ("checkpoint", "Checkpoint"),
    ("lease", "Lease"),
    ("clock_stepped", "ClockStepped"),
    ("schedule_set", "ScheduleSet"),
    ("schedule_removed", "ScheduleRemoved"),
    ("schedule_paused", "SchedulePaused"),
    ("schedule_resumed", "ScheduleResumed"),
    ("fired", "Fired"),
    ("released", "Released"),
    ("jump", "Jump"),
    ("passed", "Passed"),
    ("scheduled", "Scheduled"),
    ("schedule-spec", "ScheduleSpec"),
    ("after", "After"),
    ("schedule", "Schedule"),
    ("counts", "Counts"),
    ("decided", "Decided"),
    ("figures", "AllFigures"),
    ("type_figures", "TypeFigures"),
    ("tale", "Tale"),
    ("sums", "Sums"),
    ("histogram", "Histogram"),
    ("triggers", "Triggers"),
    ("alert_raised", "AlertRaised"),
    ("alert_cleared", "AlertCleared"),
    ("alert_acked", "AlertAcked"),
    ("alerts_told", "AlertsTold"),
    ("told", "Told"),
    ("alerts", "Alerts"),
    ("alert", "Alert"),
    ("failure", "Failure"),
    ("known", "Known"),
];

/// Rust's names for what the documents call otherwise.
const TYPES: &[(&str, &str)] = &[
    ("TaskId", "task-id"),
    ("Seq", "seq"),
    ("Fence", "seq"),
    ("WorkerId", "worker-id"),
    ("Timestamp", "wall"),
    ("LifeTime", "life"),
    ("ServiceTime", "service"),
    ("Millis", "millis"),
    ("Text", "tstr"),
    ("String", "tstr"),
    ("u32", "uint"),
    ("u64", "uint"),
    ("i32", "int"),
    ("SecretHash", "secret-hash"),
    ("InputDigest", "input-digest"),
    ("Actor", "actor"),
    ("Status", "status"),
    ("Reason", "reason"),
    ("Outcome", "outcome"),
    ("Stop", "stop"),
    ("Standing", "standing"),
    ("Act", "act"),
    ("Per", "per"),
    ("bool", "bool"),
    ("Plan", "plan"),
    ("From", "from"),
    ("Overlap", "overlap"),
    ("Gap", "gap"),
    ("Fold", "fold"),
    ("Origin", "origin"),
    ("Passing", "passing"),
    ("Rule", "rule"),
    ("Grade", "grade"),
    ("Saying", "saying"),
];

/// One key of a map: its name, its type, and whether it may be absent.
pub(crate) type Keys = BTreeMap<u32, (String, String, bool)>;

pub(crate) fn page(name: &str) -> String {
    fs::read_to_string(format!("spec/{name}")).unwrap()
}

/// The rows of the tables in a piece of Markdown, headings and rules left out.
fn rows(text: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let lines: Vec<_> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let is_rule = |line: &str| line.starts_with("| ---");
        let is_heading = lines.get(index + 1).is_some_and(|next| is_rule(next));
        if line.starts_with('|') && !is_rule(line) && !is_heading {
            let cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
            rows.push(cells.collect());
        }
    }
    rows
}

/// The part of a page below a heading of its third level, with the heading's kind if it names one.
fn sections(text: &str) -> BTreeMap<String, (Option<u16>, String)> {
    let mut found = BTreeMap::new();
    for part in text.split("\n### ").skip(1) {
        let (title, body) = part.split_once('\n').unwrap();
        let body = body.split("\n## ").next().unwrap();
        let (name, kind) = match title.split_once(" (kind ") {
            Some((name, kind)) => (name, Some(kind.trim_end_matches(')').parse().unwrap())),
            None => (title, None),
        };
        let name = name.trim_start_matches("snapshot_").to_owned();
        assert!(found.insert(name, (kind, body.to_owned())).is_none(), "{title} stands twice");
    }
    found
}

pub(crate) fn documented() -> BTreeMap<String, Keys> {
    let keys = |text: &str| -> Keys {
        let key = |row: Vec<String>| {
            let [key, name, kind, what, absent] = row.try_into().unwrap();
            assert!(!what.is_empty() && !absent.is_empty(), "{name}");
            (key.parse().unwrap(), (name, kind, absent != "must be there"))
        };
        rows(text).into_iter().map(key).collect()
    };
    let sections = sections(&page("records.md")).into_iter();
    sections.map(|(name, (_, body))| (name, keys(&body))).collect()
}

/// The structs that are written as maps, read from the sources.
fn in_code() -> BTreeMap<String, Keys> {
    let mut found = BTreeMap::new();
    let counted = ["alerts/mod.rs", "figures.rs", "figures/histogram.rs"];
    let facts = ["event.rs", "ids.rs", "schedule.rs", "state.rs", "task.rs", "task_type.rs"];
    for file in facts.into_iter().chain(counted) {
        let text = fs::read_to_string(format!("src/kernel/{file}")).unwrap();
        for part in text.split("#[cbor(map)]\npub struct ").skip(1) {
            let (name, rest) = part.split_once(" {\n").unwrap();
            let body = rest.split("\n}").next().unwrap();
            let (doc, _) = MAPS.iter().find(|(_, rust)| *rust == name).unwrap_or_else(|| {
                panic!("{name} is written to disk and has no section in spec/records.md")
            });
            found.insert((*doc).to_owned(), fields(name, body));
        }
    }
    found
}

fn fields(owner: &str, body: &str) -> Keys {
    let mut keys = Keys::new();
    let mut number = None;
    for line in body.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("#[n(") {
            number = Some(rest.trim_end_matches(")]").parse().unwrap());
        }
        let Some((name, kind)) = line.strip_prefix("pub ").and_then(|rest| rest.split_once(": "))
        else {
            continue;
        };
        let name = match (owner, name) {
            ("Head", "seq") => "last_seq",
            ("Worker", "id") => "worker",
            ("Task", "id") => "task",
            (owner, "name") if owner.starts_with("Schedule") => "schedule",
            (_, "kind") => "type",
            (_, "kinds") => "types",
            (_, name) => name,
        };
        let (kind, optional) = documented_type(kind.trim_end_matches(','));
        keys.insert(number.take().unwrap(), (name.to_owned(), kind, optional));
    }
    keys
}

fn documented_type(rust: &str) -> (String, bool) {
    let inner = |outer: &str| rust.strip_prefix(outer).and_then(|rest| rest.strip_suffix('>'));
    if let Some(inner) = inner("Option<") {
        return (documented_type(inner).0, true);
    }
    if let Some(inner) = inner("Box<").or_else(|| inner("Shared<")) {
        return documented_type(inner);
    }
    if let Some(inner) = inner("Vec<").or_else(|| inner("VecDeque<")) {
        return (format!("[* {}]", documented_type(inner).0), false);
    }
    let known = TYPES.iter().find(|(name, _)| *name == rust).map(|(_, doc)| *doc);
    let known = known.or_else(|| MAPS.iter().find(|(_, name)| *name == rust).map(|(doc, _)| *doc));
    (known.unwrap_or_else(|| panic!("what is {rust} in the documents?")).to_owned(), false)
}

/// A JSON text and any other text are one type to Rust.
fn as_rust_sees_it(maps: BTreeMap<String, Keys>) -> BTreeMap<String, Keys> {
    let mut maps = maps;
    for (_, kind, _) in maps.values_mut().flat_map(BTreeMap::values_mut) {
        if kind == "json" {
            "tstr".clone_into(kind);
        }
    }
    maps
}

#[test]
fn every_key_of_every_map_is_documented_as_it_is_in_the_code() {
    let (documented, in_code) = (as_rust_sees_it(documented()), in_code());
    for (name, keys) in &in_code {
        assert_eq!(documented.get(name), Some(keys), "{name}");
    }
    assert_eq!(documented.len(), in_code.len(), "a section describes what the code does not have");
    assert_eq!(in_code.len(), MAPS.len());
}

#[test]
fn the_schema_for_machines_says_what_the_page_says() {
    let text = page("records.cddl");
    let mut maps = BTreeMap::new();
    let mut kinds = BTreeMap::new();
    for part in text.split("\n\n") {
        let Some((name, body)) = part.trim().split_once(" = {\n") else { continue };
        let mut keys = Keys::new();
        for line in body.lines().map(str::trim) {
            let (optional, line) =
                line.strip_prefix("? ").map_or((false, line), |line| (true, line));
            let Some((key, rest)) = line.split_once(": ") else { continue };
            let (kind, name) = rest.split_once(';').unwrap();
            let kind = kind.trim().trim_end_matches(',').to_owned();
            keys.insert(key.parse().unwrap(), (name.trim().to_owned(), kind, optional));
        }
        maps.insert(name.to_owned(), keys);
    }
    maps.remove("body-of<event>").unwrap();
    for line in text.lines().filter(|line| line.contains("; kind ")) {
        let (name, kind) = line.split_once("; kind ").unwrap();
        let name = name.rsplit(['=', '/']).next().unwrap().trim();
        let name = name.trim_start_matches("body-of<").trim_end_matches('>');
        kinds.insert(kind.parse::<u16>().unwrap(), name.to_owned());
    }
    let dashed = |name: &str| name.replace('_', "-");
    let expected: BTreeMap<_, _> =
        documented().into_iter().map(|(name, keys)| (dashed(&name), keys)).collect();
    assert_eq!(maps, expected);
    let numbered = sections(&page("records.md")).into_iter();
    let expected: BTreeMap<_, _> =
        numbered.filter_map(|(name, (kind, _))| Some((kind?, dashed(&name)))).collect();
    assert_eq!(kinds, expected);
}

/// Kind, body and line of each vector.
fn vectors() -> Vec<(u16, Vec<u8>, String)> {
    let text = page("records.md");
    let block = text.split("## Test vectors").nth(1).unwrap().split("```").nth(1).unwrap();
    let lines: Vec<_> = block.trim().lines().collect();
    let vector = |lines: &[&str]| {
        let digits = lines[1].as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
        let body = digits.map(|pair| byte(pair).unwrap()).collect();
        (lines[0].parse().unwrap(), body, lines[2].to_owned())
    };
    lines.chunks(3).map(vector).collect()
}

/// The kinds that this build reads: of the journal, and of a snapshot.
fn known_kinds() -> (BTreeSet<u16>, BTreeSet<u16>) {
    let all = 0..=u16::MAX;
    let journal = all.clone().filter(|kind| {
        !matches!(codec::decode(Seq(1), *kind, &[]), Err(CodecError::UnknownKind(_)))
    });
    let kept = all
        .filter(|kind| !matches!(codec::decode_kept(*kind, &[]), Err(CodecError::UnknownKind(_))));
    (journal.collect(), kept.collect())
}

#[test]
fn every_vector_is_read_printed_and_written_again() {
    let mut seen = BTreeSet::new();
    for (kind, body, line) in vectors() {
        seen.insert(kind);
        let seq = Seq(serde_json::from_str::<Value>(&line).unwrap()["seq"].as_u64().unwrap());
        if kind < codec::SNAPSHOT_KINDS {
            let (stamp, event) = codec::decode(seq, kind, &body).unwrap();
            assert_eq!(record_json(&stamp, &event), line);
            let mut again = Vec::new();
            codec::encode(&stamp, &event, &mut again);
            assert_eq!((codec::kind(&event), again), (kind, body));
        } else {
            assert_eq!(kept_json(seq, &codec::decode_kept(kind, &body).unwrap()), line);
        }
    }
    let (journal, kept) = known_kinds();
    assert_eq!(seen, journal.union(&kept).copied().collect(), "each kind has a vector");
}

#[test]
fn the_table_of_kinds_is_the_codecs() {
    let text = page("records.md");
    let kinds = text.split("\n## Kinds\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = rows(kinds);
    let words: BTreeMap<u16, _> = rows.iter().map(|row| (row[0].parse().unwrap(), row)).collect();
    let (journal, kept) = known_kinds();
    assert_eq!(words.keys().copied().collect::<BTreeSet<_>>(), &journal | &kept);
    for (kind, body, line) in vectors() {
        let row = words[&kind];
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["event"], *row[1]);
        if kind < codec::SNAPSHOT_KINDS {
            let (_, event) = codec::decode(Seq(1), kind, &body).unwrap();
            let class = if event.is_durable() { "durable" } else { "travels along" };
            assert_eq!(row[2], class, "{}", row[1]);
        }
    }
}

#[test]
fn every_word_has_the_number_that_the_page_gives() {
    use midwatch::kernel::alerts::{Grade, Rule, Saying};
    use midwatch::kernel::event::{Act, Standing};
    use midwatch::kernel::schedule::{Fold, From, Gap, Origin, Overlap, Passing};
    use midwatch::kernel::status::{Outcome, Reason, Status, Stop};
    use midwatch::kernel::task_type::Per;

    fn words<T: for<'b> minicbor::Decode<'b, ()>>(name: &str, word: impl Fn(T) -> &'static str) {
        let text = page("records.md");
        let line = text.lines().find(|line| line.starts_with(&format!("`{name}`: "))).unwrap();
        let list = line.split_once(": ").unwrap().1.trim_end_matches('.');
        let documented: Vec<_> = list.split(", ").map(str::to_owned).collect();
        let known = (0..24_u8).filter_map(|number| {
            let member = minicbor::decode::<T>(&[number]).ok()?;
            Some(format!("{number} {}", word(member)))
        });
        assert_eq!(documented, known.collect::<Vec<_>>(), "{name}");
        let cddl = page("records.cddl");
        let (_, group) = cddl.split_once(&format!("\n{name} = &(")).unwrap();
        let group = group.split(')').next().unwrap();
        let members = group.split(',').map(str::trim).filter(|member| !member.is_empty());
        let members = members.map(|member| member.split_once(": ").unwrap());
        let members: Vec<_> = members.map(|(word, number)| format!("{number} {word}")).collect();
        assert_eq!(members, documented, "{name} in the schema");
    }

    words("status", Status::word);
    words("reason", Reason::word);
    words("outcome", Outcome::word);
    words("stop", Stop::word);
    words("standing", Standing::word);
    words("act", Act::word);
    words("per", Per::word);
    words("from", From::word);
    words("overlap", Overlap::word);
    words("gap", Gap::word);
    words("fold", Fold::word);
    words("origin", Origin::word);
    words("passing", Passing::word);
    words("grade", Grade::word);
    words("rule", Rule::word);
    words("saying", Saying::word);
}

/// Prints the vectors anew, when a field was added: paste them into the page.
#[test]
#[ignore = "a tool, not a test"]
fn print_the_vectors() {
    super::journal_store::print_vectors();
}
