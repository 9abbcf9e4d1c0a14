//! `dump --exact` holds everything: a loader that knows nothing but `spec/records.md` makes the bodies
//! again from its lines, byte for byte, and the state from them.

use super::journal_store::Bench;
use super::journal_tool::{compacted, on};
use super::spec_records::{Keys, documented, page};
use midwatch::engine::{Rebuild, Rebuilding as _, digest};
use midwatch::journal::{Place, RealDisk, Record, Replay as _, Visitor, scan};
use midwatch::units::parse_rfc3339;
use minicbor::Encoder;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

type Out<'b> = Encoder<&'b mut Vec<u8>>;

/// The page of records, as far as a loader needs it.
struct Schema {
    maps: BTreeMap<String, Keys>,
    /// The words of each list, from 0.
    words: BTreeMap<String, Vec<String>>,
    /// The number of each kind.
    kinds: BTreeMap<String, u16>,
}

impl Schema {
    fn read() -> Self {
        let text = page("records.md");
        let mut words = BTreeMap::new();
        for line in text.lines() {
            let Some((name, list)) =
                line.strip_prefix('`').and_then(|line| line.split_once("`: 0 "))
            else {
                continue;
            };
            let list = format!("0 {}", list.trim_end_matches('.'));
            let word = |item: &str| item.split_once(' ').unwrap().1.to_owned();
            words.insert(name.to_owned(), list.split(", ").map(word).collect());
        }
        let mut kinds = BTreeMap::new();
        for row in text.lines().filter_map(|line| line.strip_prefix("| ")) {
            let mut cells = row.split(" | ");
            let number = cells.next().and_then(|number| number.parse().ok());
            if let Some((number, name)) = number.zip(cells.next()) {
                kinds.entry(name.to_owned()).or_insert(number); // the tables of keys come later
            }
        }
        Self { maps: documented(), words, kinds }
    }

    /// The record that a line stands for: sequence, kind, body.
    fn load(&self, line: &str) -> (u64, u16, Vec<u8>) {
        let line: Value = serde_json::from_str(line).unwrap();
        let line = line.as_object().unwrap();
        let event = line["event"].as_str().unwrap();
        let mut body = Vec::new();
        let mut out = Encoder::new(&mut body);
        let kept = event.strip_prefix("snapshot_");
        if kept.is_none() {
            self.put_stamp(line, &mut out);
        }
        let name = kept.unwrap_or(event);
        self.put_map(name, line, &mut out);
        (line["seq"].as_u64().unwrap(), self.kinds[event], body)
    }

    /// What stands before the event's own map.
    fn put_stamp(&self, line: &Map<String, Value>, out: &mut Out<'_>) {
        out.map(5).unwrap();
        let stamp = ["at wall", "life life", "service service", "by actor"];
        for (key, (field, kind)) in (0..).zip(stamp.map(|pair| pair.split_once(' ').unwrap())) {
            out.u32(key).unwrap();
            self.put(kind, &line[field], out);
        }
        out.u32(4).unwrap();
    }

    fn put_map(&self, name: &str, object: &Map<String, Value>, out: &mut Out<'_>) {
        let keys = self.maps.get(name).unwrap_or_else(|| panic!("no table for {name}"));
        let present: Vec<_> =
            keys.iter().filter(|(_, (field, ..))| object.contains_key(field)).collect();
        out.map(present.len() as u64).unwrap();
        for (key, (field, kind, _)) in present {
            out.u32(*key).unwrap();
            self.put(kind, &object[field], out);
        }
    }

    fn put(&self, kind: &str, value: &Value, out: &mut Out<'_>) {
        if let Some(inner) = kind.strip_prefix("[* ") {
            let items = value.as_array().unwrap();
            out.array(items.len() as u64).unwrap();
            for item in items {
                self.put(inner.trim_end_matches(']'), item, out);
            }
            return;
        }
        match kind {
            "wall" => {
                out.u64(parse_rfc3339(value.as_str().unwrap()).unwrap().0).unwrap();
            }
            "tstr" | "json" => {
                out.str(value.as_str().unwrap()).unwrap();
            }
            "int" => {
                out.i64(value.as_i64().unwrap()).unwrap();
            }
            "seq" | "task-id" | "worker-id" | "uint" | "life" | "service" | "millis" => {
                out.u64(value.as_u64().unwrap()).unwrap();
            }
            "bool" => {
                out.bool(value.as_bool().unwrap()).unwrap();
            }
            "secret-hash" | "input-digest" => {
                let text = value.as_str().unwrap();
                let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
                out.bytes(&(0..text.len()).step_by(2).map(byte).collect::<Vec<_>>()).unwrap();
            }
            "actor" => put_actor(value.as_str().unwrap(), out),
            list if self.words.contains_key(list) => {
                let word = value.as_str().unwrap();
                let at = self.words[list].iter().position(|known| known == word).unwrap();
                out.u64(at as u64).unwrap();
            }
            map => self.put_map(map, value.as_object().unwrap(), out),
        }
    }
}

fn put_actor(text: &str, out: &mut Out<'_>) {
    let (variant, number) = match text.rsplit_once(' ') {
        None => (0, None),
        Some(("uid", id)) => (1, Some(id)),
        Some((_, id)) => (2, Some(id)),
    };
    out.array(2).unwrap().u32(variant).unwrap();
    out.array(u64::from(number.is_some())).unwrap();
    if let Some(number) = number {
        out.u64(number.parse().unwrap()).unwrap();
    }
}

/// The bodies as they are in the segments.
#[derive(Default)]
struct Bodies(BTreeMap<u64, (u16, Vec<u8>)>);

impl Visitor for Bodies {
    fn record(&mut self, place: Place<'_>, record: Record<'_>) -> Result<(), String> {
        self.0.insert(place.seq, (record.kind, record.body.to_vec()));
        Ok(())
    }
}

/// Loads what a dump prints and compares bodies and state with those of the store.
fn check(bench: &Bench) {
    let (code, dump, err) = on(bench, &["dump", "--exact"]);
    assert_eq!(code, 0, "{err}");
    let schema = Schema::read();
    let mut bodies = Bodies::default();
    scan(&RealDisk::open(bench.path()).unwrap(), &mut bodies).unwrap();
    let (mut rebuild, mut snapshot) = (Rebuild::default(), 0);
    for line in dump.lines() {
        let (seq, kind, body) = schema.load(line);
        let record = Record { kind, ignorable: false, body: &body };
        if 1000 <= kind {
            if snapshot == 0 {
                rebuild.snapshot_begin(seq).unwrap();
            }
            snapshot = seq;
            rebuild.snapshot_record(record).unwrap();
        } else {
            assert_eq!(bodies.0[&seq], (kind, body.clone()), "{line}");
            if snapshot < seq {
                rebuild.record(seq, record).unwrap();
            }
        }
    }
    let (_, found, _) = on(bench, &["verify", "--json"]);
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["state"]["digest"], digest(&rebuild.finish().image()).as_str());
}

// spec: REC-050
#[test]
fn a_loaded_dump_gives_the_digest() {
    let mut bench = Bench::new();
    bench.full_history();
    let worker = bench.register();
    bench.submit("{\n  \"a\": [1,\r\n 2] }");
    bench.lease(worker);
    bench.close();
    check(&bench);
}

#[test]
fn a_loaded_dump_gives_the_digest_also_where_a_snapshot_stands_for_the_beginning() {
    check(&compacted());
    let bench = compacted();
    assert_eq!(on(&bench, &["compact"]).0, 0);
    check(&bench);
}
