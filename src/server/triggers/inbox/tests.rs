//! Batches that are ended between any two steps, and desks that have no room.

use super::taking::{Taker, Trouble};
use super::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;

/// A desk that knows keys as the engine does.
#[derive(Default)]
struct Engine {
    tasks: RefCell<BTreeMap<String, Asked>>,
    /// Requests in all, those that were known included.
    requests: Cell<usize>,
    /// Tasks that there is room for.
    room: Cell<usize>,
}

impl Engine {
    fn new() -> Self {
        Self { room: Cell::new(usize::MAX), ..Self::default() }
    }

    fn one(&self, asked: Asked) -> Decided {
        self.requests.set(self.requests.get() + 1);
        if let Asked::Task { text, .. } = &asked
            && text == b"bad"
        {
            return Decided::Refused("it is bad".to_owned());
        }
        let key = match &asked {
            Asked::Task { key, .. } | Asked::File { key, .. } => key.clone(),
        };
        let mut tasks = self.tasks.borrow_mut();
        if let Some(known) = tasks.get(&key) {
            assert_eq!(known, &asked, "the same key with another payload");
        } else if self.room.get() == 0 {
            return Decided::Later("no room".to_owned());
        } else {
            self.room.set(self.room.get() - 1);
            tasks.insert(key, asked);
        }
        Decided::Taken
    }

    /// What the tasks are about, sorted.
    fn contents(&self) -> Vec<String> {
        let tasks = self.tasks.borrow();
        let mut contents: Vec<_> = tasks
            .values()
            .map(|asked| match asked {
                Asked::Task { text, .. } => String::from_utf8(text.clone()).unwrap(),
                Asked::File { kind, path, name, .. } => {
                    format!("{kind} {name} {}", fs::read_to_string(path).unwrap())
                }
            })
            .collect();
        contents.sort();
        contents
    }
}

impl Desk for Engine {
    fn decide(&self, asked: Vec<Asked>) -> Result<Vec<Decided>, Ended> {
        Ok(asked.into_iter().map(|asked| self.one(asked)).collect())
    }
}

/// An inbox with a directory that is bound to a type.
struct Bench {
    dir: tempfile::TempDir,
    engine: Engine,
}

const NOTHING: &dyn Fn() -> io::Result<()> = &|| Ok(());

impl Bench {
    fn new() -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap(), engine: Engine::new() };
        fs::create_dir(bench.root().join("images")).unwrap();
        bench
    }

    fn root(&self) -> &Path {
        self.dir.path()
    }

    #[expect(clippy::disallowed_methods, reason = "a test's own file")]
    fn put(&self, name: &str, text: &str) {
        fs::write(self.root().join(name), text).unwrap();
    }

    /// Everything there is, by path; directories end in a slash.
    fn files(&self) -> Vec<String> {
        fn walk(dir: &Path, root: &Path, found: &mut Vec<String>) {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                if path.is_dir() {
                    found.push(format!("{name}/"));
                    walk(&path, root, found);
                } else {
                    found.push(name);
                }
            }
        }
        let mut found = Vec::new();
        walk(self.root(), self.root(), &mut found);
        found.sort();
        found
    }

    /// As a daemon that starts does it: what was left first, then what is new.
    fn run(&self, after_step: &dyn Fn() -> io::Result<()>) -> Result<(), Trouble> {
        let taker = Taker { root: self.root(), desk: &self.engine, after_step };
        taker.resume()?;
        for (dir, kind) in [("", None), ("images", Some("thumbnail"))] {
            let dir = self.root().join(dir);
            let entries = fs::read_dir(&dir).unwrap().map(Result::unwrap);
            let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
            let mut names: Vec<_> = files.map(|entry| entry.file_name()).collect();
            names.sort();
            if !names.is_empty() {
                let (_, trouble) = taker.take(&dir, kind, &names)?;
                assert!(trouble.is_none(), "{trouble:?}");
            }
        }
        Ok(())
    }

    /// The same, ended after so many steps; whether it came to its end before.
    fn run_until(&self, steps: usize) -> bool {
        let left = Cell::new(steps);
        let after_step = || match left.get() {
            0 => Err(io::Error::other("killed")),
            more => {
                left.set(more - 1);
                Ok(())
            }
        };
        match self.run(&after_step) {
            Ok(()) => true,
            Err(Trouble::Io(why)) => {
                assert_eq!(why, "killed");
                false
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    fn fill(&self) {
        for (name, text) in [("a.json", "first"), ("b", "bad"), ("c", "second")] {
            self.put(name, text);
        }
        self.put("images/x.png", "picture");
        self.put("images/y z.png", "another");
    }

    /// Each file has become one task, whatever happened in between.
    fn check(&self, when: &str) {
        let expected = ["first", "second", "thumbnail x.png picture", "thumbnail y z.png another"];
        assert_eq!(self.engine.contents(), expected, "{when}");
        let files = self.files();
        let below = |dir: &str| -> Vec<_> {
            let below = files.iter().filter(|name| name.starts_with(dir) && !name.ends_with('/'));
            below.map(|name| name.rsplit_once('/').unwrap().1.to_owned()).collect()
        };
        let rejected = below("rejected/");
        assert_eq!(rejected.len(), 2, "{when}: {files:?}");
        assert!(rejected[0].ends_with("-b") && rejected[1] == format!("{}.reason", rejected[0]));
        let taken = below(".taken/");
        let mut taken: Vec<_> = taken.iter().map(|name| name.split_once('-').unwrap().1).collect();
        taken.sort_unstable();
        assert_eq!(taken, ["x.png", "y z.png"], "{when}: {files:?}");
        let outside =
            |name: &&String| !name.starts_with("rejected/") && !name.starts_with(".taken/");
        assert_eq!(files.iter().filter(outside).collect::<Vec<_>>(), ["images/"], "{when}");
    }
}

// spec: TRG-005
// B37: two writes that belong together, and a crash in between.
// B82: accepted and then not moved, or moved and then not accepted.
#[test]
fn b82_a_crash_between_any_two_steps_neither_loses_nor_doubles_a_file() {
    let mut steps = 0;
    loop {
        let bench = Bench::new();
        bench.fill();
        let whole = bench.run_until(steps);
        if !whole {
            assert!(bench.run_until(usize::MAX));
        }
        bench.check(&format!("ended after step {steps}"));
        // What is done with is not asked for again.
        let requests = bench.engine.requests.get();
        assert!(bench.run_until(usize::MAX));
        assert_eq!(bench.engine.requests.get(), requests, "ended after step {steps}");
        bench.check("looked through once more");
        if whole {
            break;
        }
        steps += 1;
    }
    assert!(20 < steps, "only {steps} steps: what is tested?");
}

// spec: TRG-005
#[test]
fn b82_crashes_after_every_single_step_come_to_the_same_end() {
    for stride in 0..8 {
        let bench = Bench::new();
        bench.fill();
        let mut runs = 0;
        while !bench.run_until(stride + runs % 5) {
            runs += 1;
            // A run that ends before it has got anywhere new must not be repeated for ever.
            if 60 < runs {
                assert!(bench.run_until(usize::MAX));
                break;
            }
        }
        bench.check(&format!("stride {stride}"));
    }
}

// spec: TRG-009
#[test]
fn what_finds_no_room_waits_and_nothing_is_asked_for_twice() {
    let bench = Bench::new();
    (0..5).for_each(|n| bench.put(&format!("images/{n}"), "picture"));
    bench.engine.room.set(2);
    let ask_again = || match bench.run(NOTHING) {
        Err(Trouble::Later(why)) => assert_eq!(why, "no room"),
        other => panic!("{other:?}"),
    };
    ask_again();
    assert_eq!((bench.engine.contents().len(), bench.engine.requests.get()), (2, 5));
    ask_again();
    assert_eq!(bench.engine.requests.get(), 8, "those that were taken are not said again");
    // Long after, when the engine has forgotten the tasks that ended.
    bench.engine.tasks.borrow_mut().clear();
    bench.engine.room.set(usize::MAX);
    bench.run(NOTHING).unwrap();
    assert_eq!(bench.engine.contents().len(), 3);
    // The handlers remove their files, and the next look the directory.
    for file in bench.files().iter().filter(|name| !name.ends_with('/')) {
        fs::remove_file(bench.root().join(file)).unwrap();
    }
    bench.run(NOTHING).unwrap();
    assert_eq!(bench.files(), [".taken/", "images/"]);
}

// spec: TRG-008
#[test]
fn files_that_are_too_large_or_no_files_are_set_aside_with_the_reason() {
    let bench = Bench::new();
    let large = fs::File::create(bench.root().join("large")).unwrap();
    large.set_len(crate::limits::BODY_BYTES_MAX as u64 + 1).unwrap();
    bench.put("target", "secret");
    let taker = Taker { root: bench.root(), desk: &bench.engine, after_step: NOTHING };
    // As if they had been put in the place of files after those were looked at.
    std::os::unix::fs::symlink(bench.root().join("target"), bench.root().join("link")).unwrap();
    let pipe = bench.root().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, pipe, rustix::fs::Mode::RWXU).unwrap();
    let names = ["large", "link", "pipe", "gone"].map(OsString::from);
    let (taken, trouble) = taker.take(bench.root(), None, &names).unwrap();
    assert!((taken, trouble.is_none()) == (3, true));
    let reasons: Vec<_> = bench
        .files()
        .iter()
        .filter(|name| name.ends_with(".reason"))
        .map(|name| fs::read_to_string(bench.root().join(name)).unwrap())
        .collect();
    assert_eq!(
        reasons,
        ["it is larger than 4MiB\n", "it is a link\n", "it is not a regular file\n"]
    );
    assert!(bench.engine.contents().is_empty());
}

// spec: TRG-004
#[test]
fn a_name_of_any_bytes_and_length_becomes_text_that_fits() {
    use std::os::unix::ffi::OsStringExt;
    let bench = Bench::new();
    let long = format!("{}.jpeg", "é".repeat(125));
    bench.put(&format!("images/{long}"), "picture");
    let odd = OsString::from_vec(b"a\xFFb\n".to_vec());
    #[expect(clippy::disallowed_methods, reason = "a test's own file")]
    fs::write(bench.root().join("images").join(&odd), "picture").unwrap();
    bench.run(NOTHING).unwrap();
    let clipped = format!("{}.jpeg", "é".repeat(97));
    let expected = ["a\u{FFFD}b\n", &clipped].map(|name| format!("thumbnail {name} picture"));
    assert_eq!(bench.engine.contents(), expected);
}

// spec: TRG-011
#[test]
fn a_place_of_its_own_that_is_somebody_elses_is_refused() {
    let (bench, elsewhere) = (Bench::new(), tempfile::tempdir().unwrap());
    bench.put("a", "first");
    std::os::unix::fs::symlink(elsewhere.path(), bench.root().join(".taken")).unwrap();
    let taker = Taker { root: bench.root(), desk: &bench.engine, after_step: NOTHING };
    let Err(Trouble::Io(why)) = taker.take(bench.root(), None, &["a".into()]) else {
        panic!("it was taken");
    };
    assert!(why.ends_with(".taken is not a directory of midwatch's own user"), "{why}");
    assert!(bench.files().contains(&"a".to_owned()));
}

// spec: TRG-003
#[test]
#[expect(clippy::disallowed_methods, reason = "a test's own file")]
fn a_directory_of_a_type_that_was_turned_into_a_link_is_not_followed() {
    let (bench, elsewhere) = (Bench::new(), tempfile::tempdir().unwrap());
    let (images, secret) = (bench.root().join("images"), elsewhere.path().join("passwd"));
    fs::write(&secret, "x").unwrap();
    fs::remove_dir(&images).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), &images).unwrap();
    let taker = Taker { root: bench.root(), desk: &bench.engine, after_step: NOTHING };
    let taken = taker.take(&images, Some("thumbnail"), &["passwd".into()]);
    assert!(matches!(taken, Err(Trouble::Io(why)) if why.contains("images")));
    assert!(secret.exists() && bench.engine.contents().is_empty());
    assert!(make_dir(&images, false).is_err());
}

#[test]
fn the_same_trouble_with_another_random_name_is_the_same_trouble() {
    let one = nameless("cannot make /i/.taken/0123456789abcdef: No space left (os error 28)");
    let other = nameless("cannot make /i/.taken/fedcba9876543210: No space left (os error 28)");
    assert_eq!(one, other);
    assert_ne!(one, nameless("cannot read /i/.taken/0123456789abcdef: No space left"));
}
