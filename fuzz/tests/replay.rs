//! Every input that is kept, and a few thousand more on their way from these.

use midwatch::sim::Dice;
use midwatch_fuzz::{TARGETS, Target};
use std::fs;
use std::path::Path;

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

fn replay(name: &str) {
    let run: Target = TARGETS.iter().find(|(known, ..)| *known == name).unwrap().1;
    let kept = kept(name);
    let mut dice = Dice::new(1);
    for (path, input) in &kept {
        println!("{path}");
        run(input);
        for _ in 0..VARIATIONS {
            let mut varied = input.clone();
            vary(&mut varied, &kept, &mut dice);
            // Shown only when the test fails: the last line is the culprit.
            println!("{varied:?}");
            run(&varied);
        }
    }
}

#[test]
fn frames() {
    replay("frame");
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
fn the_seeds_are_those_that_the_generator_makes() {
    for (name, _, seeds) in TARGETS {
        let kept = kept(name);
        for (seed, bytes) in seeds() {
            let found = kept.iter().find(|(path, _)| path.ends_with(&format!("/{seed}")));
            assert_eq!(found.map(|(_, kept)| kept), Some(&bytes), "{name}/{seed}");
        }
    }
}
