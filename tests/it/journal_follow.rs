//! `follow` beside an engine that works, stops, compacts and starts again.

use super::journal_store::Bench;
use super::journal_tool::{command, on};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

/// Long enough for any machine; only a failure waits for it.
const PATIENCE: Duration = Duration::from_mins(3);

struct Follower {
    child: Child,
    lines: Receiver<String>,
}

impl Follower {
    fn new(bench: &Bench, arguments: &[&str]) -> Self {
        let dir = bench.path().to_str().unwrap();
        let mut child = command(&[&["follow", dir], arguments].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (to, lines) = sync_channel(10_000);
        std::thread::Builder::new()
            .spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| to.send(line)))
            .unwrap();
        Self { child, lines }
    }

    /// The lines up to the record with that sequence.
    fn until(&self, seq: u64) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("a line in time");
            let found = serde_json::from_str::<Value>(&line).unwrap()["seq"].as_u64().unwrap();
            all.push(line);
            if found == seq {
                return all;
            }
            assert!(found < seq, "{found} came before {seq}");
        }
    }

    /// Ends it; what it said on stderr.
    fn interrupt(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(self.lines.iter().count(), 0, "nothing more");
        said
    }
}

// spec: JRN-071
#[test]
fn a_follower_prints_the_lines_of_a_dump_over_rotation_kill_and_restart() {
    let mut bench = Bench::new();
    bench.full_history();
    let follower = Follower::new(&bench, &["--from", "1"]);
    let mut lines = follower.until(bench.last_seq());
    bench.submit_many(30);
    bench.submit("1");
    lines.extend(follower.until(bench.last_seq()));
    bench.kill();
    bench.start();
    bench.submit("2");
    lines.extend(follower.until(bench.last_seq()));
    let (_, dump, _) = on(&bench, &["dump"]);
    assert!(lines.iter().eq(dump.lines()), "the same lines");
    assert_eq!(follower.interrupt(), "");
}

// spec: JRN-071
#[test]
fn a_follower_goes_on_behind_what_a_compaction_took() {
    let mut bench = Bench::new();
    bench.full_history();
    bench.close();
    assert_eq!(on(&bench, &["compact"]).0, 0);
    bench.start();
    let last = bench.last_seq();
    let follower = Follower::new(&bench, &["--from", "3", "--json"]);
    assert_eq!(follower.until(last).len(), 1);
    let said = follower.interrupt();
    assert_eq!(said, "note: records 3 to 25 are gone; a snapshot stands for them\n");
}

#[test]
fn a_follower_of_one_task_prints_no_other() {
    let mut bench = Bench::new();
    bench.full_history();
    let follower = Follower::new(&bench, &["--from", "1", "--task", "4"]);
    assert_eq!(follower.until(24).len(), 4);
    follower.interrupt();
}

#[test]
fn a_follower_of_nothing_is_a_slip_of_the_hand() {
    let dir = tempfile::tempdir().unwrap();
    let (code, _, err) = super::journal_tool::tool(&["follow", dir.path().to_str().unwrap()]);
    assert!(code == 2 && err.starts_with("error: there is no store in "), "{err}");
}
