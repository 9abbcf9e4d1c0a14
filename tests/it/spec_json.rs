//! `spec/json.md` against what the commands print: every field that is printed is documented, and
//! every documented field was seen with each of its types.

use crate::field::house::{House, Part, until};
use midwatch::kernel::ids::TaskId;
use midwatch::kernel::status::Status;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

const PAGE: &str = include_str!("../../spec/json.md");

/// What no run of this test brings about: a wall clock that was put back, a schedule whose zone
/// went, a store that is damaged. Other tests show most of it.
const ABSENT: &[(&str, &str, &[&str])] = &[
    ("schedule", "trouble", &["string"]),
    ("midwatch schedule list", "refused[].name", &["string"]),
    ("midwatch schedule list", "refused[].why", &["string"]),
    ("midwatch schedule next", "end", &["string"]),
    ("midwatch stats", "minutes[].wait_p95_ms", &["null"]),
    ("midwatch stats", "minutes[].run_p95_ms", &["null"]),
    ("midwatch status", "next_fire", &["null"]),
    ("midwatch status", "stalled_ms", &["number"]),
    ("midwatch status", "processes[].open_files", &["null"]),
    ("midwatch status", "processes[].growing[]", &["string"]),
    ("midwatch alerts", "channels[].trouble", &["string"]),
    ("alert", "task.error", &["null"]),
    ("midwatch status", "disk_free", &["null"]),
    ("midwatch status", "clock.last_step", &["object"]),
    ("midwatch status", "clock.last_step.from", &["string"]),
    ("midwatch status", "clock.last_step.to", &["string"]),
    ("midwatch config check", "file", &["null"]),
    ("midwatch config show", "file", &["null"]),
    ("midwatch-journal inspect", "report", &["null"]),
    ("midwatch-journal inspect", "error", &["object"]),
    ("midwatch-journal inspect --at", "frames[].records[].record", &["null"]),
    ("midwatch-journal inspect --at", "frames[].records[].error", &["string"]),
    ("midwatch-journal inspect --at", "frames[].records[].body", &["string"]),
    ("midwatch-journal verify", "report", &["null"]),
    ("midwatch-journal verify", "state", &["null"]),
    ("midwatch-journal verify", "error", &["object"]),
    ("midwatch-journal stats", "bytes_per_live_task", &["null"]),
    ("midwatch-journal repair", "plan", &["any"]),
    ("report", "store", &["null"]),
    ("report", "snapshots[].fault", &["string"]),
    ("report", "tail.file", &["string"]),
    ("report", "tail.offset", &["number"]),
    ("report", "tail.bytes", &["number"]),
    ("report", "tail.frames_after", &["number"]),
    ("report", "tail.what", &["string"]),
    ("report", "notes[]", &["string"]),
    ("fault", "code", &["string"]),
    ("fault", "message", &["string"]),
    ("fault", "file", &["string"]),
    ("fault", "offset", &["number"]),
    ("fault", "seq", &["number"]),
    ("fault", "what", &["string"]),
    ("fault", "records_before", &["number"]),
    ("fault", "records_after", &["number"]),
    ("fault", "bytes_after", &["number"]),
    ("fault", "first_missing", &["number"]),
    ("fault", "last_missing", &["number"]),
];

/// A documented field.
#[derive(Clone, Debug)]
struct Field {
    types: BTreeSet<String>,
    shape: Option<String>,
    may_be_left_out: bool,
}

type Sections = BTreeMap<String, BTreeMap<String, Field>>;

/// The tables of the page by their headings.
fn sections() -> Sections {
    let mut sections = Sections::new();
    let mut heading = String::new();
    let headings: BTreeSet<_> = PAGE.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    for line in PAGE.lines() {
        if let Some(name) = line.strip_prefix("### ").or_else(|| line.strip_prefix("## ")) {
            name.clone_into(&mut heading);
        }
        let Some(row) = line.strip_prefix("| `") else { continue };
        let cells: Vec<_> = row.split(" | ").collect();
        assert_eq!(cells.len(), 3, "{line}");
        let (path, kind) = (cells[0].trim_end_matches('`').to_owned(), cells[1]);
        let may_be_left_out = kind.contains("left out");
        let words = kind.split([' ', ',']).filter(|word| !["or", "left", "out", ""].contains(word));
        let mut field = Field { types: BTreeSet::new(), shape: None, may_be_left_out };
        for word in words {
            if headings.contains(word) {
                field.shape = Some(word.to_owned());
                field.types.insert("object".to_owned());
            } else {
                let known = ["string", "number", "bool", "list", "object", "any", "null"];
                assert!(known.contains(&word), "{heading}: {line}");
                field.types.insert(word.to_owned());
            }
        }
        let before = sections.entry(heading.clone()).or_default().insert(path, field);
        assert!(before.is_none(), "{heading} has it twice: {line}");
    }
    sections
}

/// What was seen so far.
struct Walk {
    sections: Sections,
    seen: BTreeMap<(String, String), BTreeSet<String>>,
    wrong: BTreeSet<String>,
}

const fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

impl Walk {
    /// Compares a document with its section.
    fn take(&mut self, section: &str, value: &Value) {
        assert!(self.sections.contains_key(section), "no section {section}");
        self.walk(section, "", value);
    }

    fn walk(&mut self, section: &str, path: &str, value: &Value) {
        let rows = &self.sections[section];
        let field = rows.get(if path.is_empty() { "." } else { path }).cloned();
        if let Some(field) = field {
            let any = field.types.contains("any") && !value.is_null();
            let found = if any { "any" } else { type_of(value) };
            let place = if path.is_empty() { "." } else { path };
            self.seen.entry((section.into(), place.into())).or_default().insert(found.into());
            if !field.types.contains(found) && !field.types.contains("any") {
                self.wrong.insert(format!("{section}: `{place}` is {found}"));
            }
            if any || value.is_null() {
                return;
            }
            if let Some(shape) = &field.shape {
                return self.walk_shape(section, path, shape, value);
            }
        } else if !path.is_empty() && !rows.keys().any(|row| row.starts_with(&format!("{path}."))) {
            self.wrong.insert(format!("{section}: `{path}` is not documented"));
            return;
        }
        match value {
            Value::Array(values) => {
                for value in values {
                    self.walk(section, &format!("{path}[]"), value);
                }
            }
            Value::Object(fields) => {
                let dot = if path.is_empty() { "" } else { "." };
                let any = format!("{path}{dot}*");
                let of_data = self.sections[section].contains_key(&any);
                for (name, value) in fields {
                    let inner = if of_data { any.clone() } else { format!("{path}{dot}{name}") };
                    self.walk(section, &inner, value);
                }
                self.all_there(section, path, fields);
            }
            _ => {}
        }
    }

    /// What the section itself documents of the object stays with it; the rest is the shape's.
    fn walk_shape(&mut self, section: &str, path: &str, shape: &str, value: &Value) {
        let Value::Object(fields) = value else { return };
        let (mut own, mut rest) = (Vec::new(), serde_json::Map::new());
        for (name, value) in fields {
            if path.is_empty() && self.sections[section].contains_key(name) {
                own.push((name.clone(), value));
            } else {
                rest.insert(name.clone(), value.clone());
            }
        }
        for (name, value) in own {
            self.walk(section, &name, value);
        }
        self.walk(shape, "", &Value::Object(rest));
    }

    /// Nothing is left out but what may be.
    fn all_there(&mut self, section: &str, path: &str, fields: &serde_json::Map<String, Value>) {
        for (row, field) in &self.sections[section] {
            let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
            let Some(name) = row.strip_prefix(&prefix) else { continue };
            let is_child = !name.contains(['.', '[', '*']) && !name.is_empty();
            if is_child && !field.may_be_left_out && !fields.contains_key(name) {
                self.wrong.insert(format!("{section}: `{row}` is left out"));
            }
        }
    }

    /// What is documented and was not seen.
    fn unseen(&self) -> Vec<String> {
        let mut unseen = Vec::new();
        for (section, rows) in &self.sections {
            for (path, field) in rows {
                let key = (section.clone(), path.clone());
                let seen = self.seen.get(&key).cloned().unwrap_or_default();
                let absent = ABSENT.iter().find(|(of, at, _)| *of == section && *at == path);
                let absent: BTreeSet<String> = absent
                    .into_iter()
                    .flat_map(|(.., types)| *types)
                    .map(|it| (*it).into())
                    .collect();
                let both: Vec<_> = seen.intersection(&absent).collect();
                if !both.is_empty() {
                    unseen.push(format!("{section}: `{path}` was seen as {both:?} after all"));
                }
                let missing: Vec<_> = field
                    .types
                    .iter()
                    .filter(|it| !seen.contains(*it) && !absent.contains(*it))
                    .collect();
                if !missing.is_empty() {
                    unseen.push(format!("{section}: `{path}` never was {missing:?}"));
                }
            }
        }
        unseen
    }
}

/// A house with something of everything.
fn house() -> House {
    let midwatch = env!("CARGO_BIN_EXE_midwatch");
    let hold = format!(
        "if first; then exec >&-; echo '{{\"op\":\"progress\",\"done\":3,\"total\":10,\"note\":\"n\"}}' >&3; \
         read -r a <&3; {midwatch} task checkpoint '{{\"at\":3}}' --json >>\"$DIR/task.json\"; fi; \
         until_there go"
    );
    let plain = format!(
        "{midwatch} task progress 3 --json >>\"$DIR/task.json\"; until_there stop; \
         {midwatch} task progress 4 --json >>\"$DIR/task.json\"; : >\"$DIR/stopped\"; until_there go"
    );
    let good = format!("{midwatch} task result '{{\"rows\":3}}'; echo good");
    let config = "[schedules.nightly]\ntype = \"good\"\ncron = \"30 2 * * *\"\n\
                  timezone = \"America/New_York\"\npayload = { a = 1 }\nmax_retry = 1\n\
                  timeout = \"5m\"\ndst_gap = \"shift\"\ndst_fold = \"first\"\n\
                  [schedules.often]\ntype = \"fatal\"\nevery = \"1s\"\n\
                  [schedules.long]\ntype = \"plain\"\nevery = \"1s\"\noverlap = \"queue\"\n\
                  [alerts.ops]\ncommand = [\"/bin/true\"]\n\
                  [alerts.night]\nwebhook = \"http://127.0.0.1:9/\"\ngroup_wait = \"1h\"\n";
    let spans = "heartbeat = \"300ms\"\nsuspect_after = \"2s\"\noffline_after = \"4s\"\n";
    House::with(
        config,
        spans,
        &[
            ("hold", hold.as_str(), "max_running = 2"),
            ("plain", plain.as_str(), "cancel_grace = \"1h\""),
            ("good", good.as_str(), ""),
            ("fatal", "exit 65", "advice = \"look at it\"\ncontact = \"ops\""),
            ("again", "first && exit 75; exit 0", ""),
            ("quiet", "until_there go", ""),
            ("paced", "exit 0", "rate = \"1/h\""),
            ("later", "exit 75", "retry = { base = \"1h\", cap = \"1h\" }"),
            ("dead", "kill -9 $$", "retry = { max_retry = 0 }"),
        ],
    )
}

/// Fills the house, and says what the commands that act print.
fn fill(house: &House, walk: &mut Walk) -> Vec<Part> {
    let json = |args: &[&str]| -> Value {
        let text = house.say(&[args, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"))
    };
    let mut parts = vec![house.engine()];
    // Nothing is there yet.
    walk.take("midwatch list", &json(&["list"]));
    walk.take("midwatch stats", &json(&["stats"]));
    let early = house.run(&["status", "--json"]).stdout;
    walk.take("midwatch status", &serde_json::from_slice(&early).unwrap());
    parts.extend([house.worker("w1", 8)]);
    let submit = |walk: &mut Walk, args: &[&str]| -> TaskId {
        let answer = json(&[&["submit"], args].concat());
        walk.take("midwatch submit", &answer);
        TaskId(answer["id"].as_u64().unwrap())
    };
    let hold = submit(walk, &["hold", r#"{"a":1}"#, "--key", "k", "--timeout", "1h"]);
    house.until_start(hold, 1);
    submit(walk, &["hold", r#"{"a":1}"#, "--key", "k", "--timeout", "1h"]);
    let plain = submit(walk, &["plain"]);
    house.until_start(plain, 1);
    let ended = [
        (submit(walk, &["good"]), Status::Success),
        (submit(walk, &["fatal"]), Status::Failed),
        (submit(walk, &["dead"]), Status::Dead),
        (submit(walk, &["again"]), Status::Success),
    ];
    for (id, status) in ended {
        house.until_status(id, status);
    }
    submit(walk, &["quiet"]);
    let later = submit(walk, &["later"]);
    house.until_status(later, Status::Retrying);
    let (hold, plain, dead) = (hold.to_string(), plain.to_string(), ended[2].0.to_string());
    let paused = submit(walk, &["good", "--delay", "1h"]).to_string();
    let cancelled = submit(walk, &["good", "--delay", "1h"]).to_string();
    submit(walk, &["good", "--after", &hold]);
    submit(walk, &["good", "--after-any", &hold]);
    for args in [["pause", &paused], ["cancel", &cancelled], ["cancel", &cancelled]] {
        walk.take("midwatch cancel", &json(&args));
    }
    walk.take("midwatch type pause", &json(&["type", "pause", "good", "--reason", "why"]));
    walk.take("midwatch type pause", &json(&["type", "pause", "good", "--reason", "why"]));
    walk.take("midwatch type pause", &json(&["type", "limit", "later", "--rate", "9/s"]));
    walk.take("midwatch cancel", &json(&["retry", &dead]));
    walk.take("midwatch cancel", &json(&["cancel", &plain]));
    house.touch("stop");
    house
        .until("the handler has heard of it", |house| house.path("stopped").exists().then_some(()));
    // The second is held up by the rate of its type.
    for _ in 0..2 {
        submit(walk, &["paced"]);
    }
    for args in [
        &["add", "boot", "--type", "good", "--boot"][..],
        &["add", "once", "--type", "good", "--at", "2099-01-01T00:00:00Z"],
        &["pause", "nightly", "--reason", "why"],
        &["pause", "nightly", "--reason", "why"],
        &["resume", "nightly"],
        &["pause", "boot"],
        &["trigger", "nightly"],
        &["pause", "often"],
    ] {
        walk.take("midwatch schedule add", &json(&[&["schedule"], args].concat()));
    }
    parts
}

fn bulk(house: &House, walk: &mut Walk) {
    let lines = "{\"type\":\"good\",\"key\":\"b\"}\n{\"type\":\"good\",\"key\":\"b\"}\n{\"type\":\"nope\"}\n{\n";
    fs::write(house.path("lines"), lines).unwrap();
    let file = house.path("lines").display().to_string();
    for (format, section) in [("json", "midwatch import"), ("ndjson", "midwatch import, as NDJSON")]
    {
        let output = house.run(&["import", &file, "--format", format]);
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            walk.take(section, &serde_json::from_str(line).unwrap());
        }
    }
}

/// What the commands that look print.
fn look(house: &House, walk: &mut Walk) {
    let mut asked: Vec<(&str, Vec<String>)> = Vec::new();
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for (section, text) in [
        ("midwatch list", "list --limit 3"),
        ("midwatch list", "list"),
        ("midwatch type list", "type list"),
        ("midwatch type show", "type show hold"),
        ("midwatch schedule list", "schedule list"),
        ("midwatch schedule next", "schedule next nightly -n 400"),
        ("midwatch workers", "workers"),
        ("midwatch status", "status"),
        ("midwatch status", "status --digest"),
        ("midwatch stats", "stats --by minute"),
        ("midwatch alerts", "alerts"),
        ("midwatch alerts", "alerts list"),
        ("midwatch doctor", "doctor"),
        ("midwatch states", "states"),
        ("midwatch config check", "config check"),
        ("midwatch config show", "config show"),
        ("midwatch schedule show", "schedule show nightly"),
        ("midwatch schedule show", "schedule show often"),
        ("midwatch schedule show", "schedule show long"),
        ("midwatch schedule show", "schedule show once"),
    ] {
        asked.push((section, words(text)));
    }
    // However many tasks the schedules made meanwhile, those that never had an attempt are among them.
    let mut ids: BTreeSet<u64> = (1..12).collect();
    for status in ["PAUSED", "CANCELLED"] {
        let text = house.say(&["list", "--status", status, "--json"]);
        let list: Value = serde_json::from_str(&text).unwrap();
        ids.extend(
            list["tasks"].as_array().unwrap().iter().map(|task| task["id"].as_u64().unwrap()),
        );
    }
    for id in ids {
        asked.push(("midwatch show", words(&format!("show {id}"))));
        asked.push(("midwatch history", words(&format!("history {id}"))));
        asked.push(("midwatch doctor ID", words(&format!("doctor {id}"))));
    }
    for (section, mut args) in asked {
        args.push("--json".to_owned());
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let output = house.run(&args);
        let text = String::from_utf8(output.stdout).unwrap();
        let value = serde_json::from_str(&text).unwrap_or_else(|error| {
            panic!("{args:?}: {error}: {text}{}", String::from_utf8_lossy(&output.stderr))
        });
        walk.take(section, &value);
    }
}

/// What a stream of events prints until there is one of each kind that is wanted.
fn watch(house: &House, walk: &mut Walk) {
    let part = house.spawn("watch", house.command(&["watch", "--from", "1", "--json"]));
    until("events were printed", || part.log().contains("\"SUCCESS\"").then_some(()));
    let log = part.log();
    part.kill();
    let lines = log.lines().filter(|line| line.starts_with('{') && line.ends_with('}'));
    for line in lines {
        walk.take("midwatch watch", &serde_json::from_str(line).unwrap());
    }
}

/// What the journal tool prints, of a store that nobody uses.
fn journal(house: &House, walk: &mut Walk) {
    for (section, args) in [
        ("midwatch-journal inspect", "inspect"),
        ("midwatch-journal inspect --at", "inspect --at 5"),
        ("midwatch-journal inspect --at", "inspect --at 1:0"),
        ("midwatch-journal verify", "verify"),
        ("midwatch-journal dump", "dump"),
        ("midwatch-journal state", "state"),
        ("midwatch-journal state --task", "state --task 1"),
        ("midwatch-journal stats", "stats"),
        ("midwatch-journal compact", "compact --dry-run"),
        ("midwatch-journal compact", "compact"),
        ("midwatch-journal compact", "compact --dry-run"),
        ("midwatch-journal stats", "stats"),
        ("midwatch-journal verify", "verify"),
        ("midwatch-journal repair", "repair --dry-run"),
    ] {
        tool(house, walk, section, args);
    }
}

/// What one command of the journal tool prints.
fn tool(house: &House, walk: &mut Walk, section: &str, args: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_midwatch-journal"));
    command.args(args.split(' ')).arg(house.path("data"));
    if args != "dump" {
        command.arg("--json");
    }
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.is_empty(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
    for line in text.lines() {
        walk.take(section, &serde_json::from_str(line).unwrap());
    }
}

#[test]
fn the_page_of_json_has_every_field_that_is_printed_and_no_other() {
    let mut walk = Walk { sections: sections(), seen: BTreeMap::new(), wrong: BTreeSet::new() };
    assert!(30 < walk.sections.len());
    let house = house();
    let parts = fill(&house, &mut walk);
    bulk(&house, &mut walk);
    look(&house, &mut walk);
    tool(&house, &mut walk, "midwatch-journal state", "state");
    // A worker that falls silent with what it holds, and a daemon that was away.
    parts[1].freeze();
    house.until("it is offline", |house| {
        house.workers().iter().any(|it| it.status == "offline").then_some(())
    });
    look(&house, &mut walk);
    parts[1].thaw();
    for part in parts.into_iter().rev() {
        part.kill();
    }
    std::thread::sleep(std::time::Duration::from_millis(2500));
    let mut parts = [house.engine(), house.worker("w1", 8)];
    house.touch("go");
    let waited = house.run(&["wait", "1", "--json"]);
    walk.take("midwatch wait", &serde_json::from_slice(&waited.stdout).unwrap());
    house.until("the schedule has run on", |house| {
        let text = house.say(&["schedule", "show", "long", "--json"]);
        let one: Value = serde_json::from_str(&text).unwrap();
        one["last_success"].is_string().then_some(())
    });
    watch(&house, &mut walk);
    for _ in 0..3 {
        house.submit("fatal", "null");
    }
    house.until("an alert stands that nothing else tells of", |house| {
        house.status()?.attention.iter().any(|point| point.alert.is_some()).then_some(())
    });
    look(&house, &mut walk);
    for (section, text) in
        [("midwatch alerts ack", "alerts ack 1"), ("midwatch alerts test", "alerts test")]
    {
        let mut args: Vec<_> = text.split(' ').collect();
        args.push("--json");
        walk.take(section, &serde_json::from_slice(&house.run(&args).stdout).unwrap());
    }
    look(&house, &mut walk);
    for line in fs::read_to_string(house.path("task.json")).unwrap().lines() {
        walk.take("midwatch task", &serde_json::from_str(line).unwrap());
    }
    for part in parts.iter_mut().rev() {
        part.terminate();
    }
    journal(&house, &mut walk);
    let wrong: Vec<_> = walk.wrong.iter().cloned().collect();
    assert!(wrong.is_empty(), "not as spec/json.md says:\n{}", wrong.join("\n"));
    let unseen = walk.unseen();
    assert!(unseen.is_empty(), "documented and never seen:\n{}", unseen.join("\n"));
}
