//! Every input that is kept, and a few thousand more on their way from these.

use midwatch::sim::Dice;
use midwatch_fuzz::{TARGETS, Target};
use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Nothing that is read makes anybody ask for so much memory at once.
const ALLOCATION_MAX: usize = 64 << 20;

/// Has no more than that for anybody: who asks for it ends the process, with a message.
struct Bounded;

// SAFETY: it hands calls on to the system's allocator as they came, or says that memory is short.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if ALLOCATION_MAX < layout.size() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;

/// Variations of each input.
const VARIATIONS: u32 = 60;

fn kept(name: &str) -> Vec<(String, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
    let mut files: Vec<_> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no input is kept in {}", dir.display());
    files
}

fn vary(input: &mut Vec<u8>, others: &[(String, Vec<u8>)], dice: &mut Dice) {
    for _ in 0..=dice.below(3) {
        let place = dice.below(input.len() + 1);
        match dice.below(5) {
            0 => input.insert(place, dice.word() as u8),
            1 if place < input.len() => drop(input.remove(place)),
            2 if place < input.len() => input[place] ^= 1 << dice.below(8),
            3 if place < input.len() => input[place] = dice.word() as u8,
            _ => {
                let (_, other) = &others[dice.below(others.len())];
                let from = dice.below(other.len() + 1);
                input.truncate(place);
                input.extend_from_slice(&other[from..]);
            }
        }
    }
}

/// Shows the input when it ends in a panic.
struct Tried<'a>(&'a [u8]);

impl Drop for Tried<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the input: {:?}", self.0);
        }
    }
}

/// Tries what is kept, so many variations of each, and more for `MIDWATCH_FUZZ_SECONDS`.
fn replay(name: &str) {
    let run: Target = TARGETS.iter().find(|(known, ..)| *known == name).unwrap().1;
    let try_it = |input: &[u8]| {
        let _shown = Tried(input);
        run(input);
    };
    let kept = kept(name);
    let mut dice = Dice::new(1);
    for (_, input) in &kept {
        try_it(input);
        for _ in 0..VARIATIONS {
            let mut varied = input.clone();
            vary(&mut varied, &kept, &mut dice);
            try_it(&varied);
        }
    }
    let seconds = std::env::var("MIDWATCH_FUZZ_SECONDS").map_or(0, |text| text.parse().unwrap());
    let (began, mut more) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(seconds) {
        let mut varied = kept[dice.below(kept.len())].1.clone();
        for _ in 0..=dice.below(4) {
            vary(&mut varied, &kept, &mut dice);
        }
        try_it(&varied);
        more += 1;
    }
    println!("{name}: {} inputs, {more} random variations in {seconds} s", kept.len());
}

#[test]
fn frames() {
    replay("frame");
}

#[test]
fn scans() {
    replay("scan");
}

#[test]
fn snapshots() {
    replay("snapshot");
}

#[test]
fn stores() {
    replay("store");
}

#[test]
fn repairs() {
    replay("repair");
}

#[test]
fn bodies() {
    replay("body");
}

#[test]
fn commands() {
    replay("commands");
}

#[test]
fn api_inputs() {
    replay("api");
}

#[cfg(feature = "host")]
#[test]
fn configs() {
    replay("config");
}

#[cfg(feature = "host")]
#[test]
fn submissions() {
    replay("submission");
}

#[cfg(feature = "host")]
#[test]
fn doors() {
    replay("door");
}

#[test]
fn the_seeds_are_those_that_the_generator_makes() {
    for (name, _, seeds) in TARGETS {
        let kept = kept(name);
        for (seed, bytes) in seeds() {
            let found = kept.iter().find(|(path, _)| path.ends_with(&format!("/{seed}")));
            assert_eq!(found.map(|(_, kept)| kept), Some(&bytes), "{name}/{seed}");
        }
    }
}
