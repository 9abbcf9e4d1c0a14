//! The processes of an attempt, as the kernel shows them.

use crate::api::ProcessId;
use crate::kernel::ids::Millis;
use crate::process;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;

/// Processes that are shown.
const SHOWN_MAX: usize = 20;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Node {
    pub(super) pid: u32,
    /// 0 for the handler itself, 1 for what it started, and so on.
    pub(super) depth: usize,
    /// As `ps` has it: R runs, S sleeps, D waits in the kernel, T is stopped, Z has ended.
    pub(super) state: char,
    /// Processor time it has used.
    pub(super) cpu_ms: Millis,
    pub(super) command: String,
}

/// The handler's process and all below it; empty when it is gone, or on another host.
pub(super) fn tree(root: &ProcessId) -> Vec<Node> {
    // The number may be another's by now.
    if !process::is_alive(root).unwrap_or(false) {
        return Vec::new();
    }
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let stats = pids.filter_map(|pid| Some((pid, read(&stat_of(pid)?)?)));
    let all: BTreeMap<u32, Stat> = stats.collect();
    grow(root.pid, &all, |pid| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).replace('\0', " ").trim().to_owned()
    })
}

fn stat_of(pid: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stat {
    name: String,
    state: char,
    parent: u32,
    cpu: Millis,
}

/// Reads `/proc/PID/stat`; the name in it may hold anything, a bracket too.
fn read(text: &str) -> Option<Stat> {
    let (before, after) = text.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    let cpu = ticks(11)?.saturating_add(ticks(12)?);
    Some(Stat {
        name,
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        cpu: Millis(cpu.saturating_mul(1000) / per_second),
    })
}

fn grow(root: u32, all: &BTreeMap<u32, Stat>, command: impl Fn(u32) -> String) -> Vec<Node> {
    let mut open = vec![(root, 0)];
    let mut nodes = Vec::new();
    while let Some((pid, depth)) = open.pop() {
        let Some(stat) = all.get(&pid).filter(|_| nodes.len() < SHOWN_MAX) else { continue };
        let words = command(pid);
        let command = if words.is_empty() { format!("[{}]", stat.name) } else { words };
        nodes.push(Node { pid, depth, state: stat.state, cpu_ms: stat.cpu, command });
        // The oldest is shown first.
        let below = all.iter().rev().filter(|(_, stat)| stat.parent == pid);
        open.extend(below.map(|(pid, _)| (*pid, depth + 1)));
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_read_whatever_the_names_are() {
        let text = "42 (a) b (c) S 7 42 42 0 -1 4194304 1 0 0 0 50 25 0 0 20 0 1 0 99 1 1";
        let stat = read(text).unwrap();
        assert_eq!((stat.name.as_str(), stat.state, stat.parent), ("a) b (c", 'S', 7));
        let stat = |parent| Stat { name: "x".to_owned(), state: 'S', parent, cpu: Millis(0) };
        let all =
            [(1, stat(0)), (5, stat(1)), (6, stat(5)), (7, stat(5)), (8, stat(6)), (9, stat(1))];
        let nodes =
            grow(5, &all.into(), |pid| if pid == 8 { String::new() } else { "cmd".to_owned() });
        let shape: Vec<_> = nodes.iter().map(|node| (node.pid, node.depth)).collect();
        assert_eq!(shape, [(5, 0), (6, 1), (8, 2), (7, 1)]);
        assert_eq!(nodes[2].command, "[x]");
    }

    #[test]
    fn one_that_is_gone_has_no_tree() {
        let mut gone = process::current().unwrap();
        assert!(!tree(&gone).is_empty());
        gone.start_time += 1;
        assert!(tree(&gone).is_empty());
    }
}
