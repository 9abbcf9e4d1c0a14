//! The files of the log, on a real file system.

use super::super::writer::Echo;
use super::*;
use std::io::Read;

struct Bench {
    dir: tempfile::TempDir,
    settings: Settings,
    log: LogFile,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings {
            dir: Some(dir.path().join("data/log")),
            within: Some(dir.path().join("data")),
            rotate: Rotate::Size,
            max_size: 100,
            keep: 3,
            compress: false,
            echo: Echo::All,
            json: false,
            colour: false,
        };
        fs::create_dir(dir.path().join("data")).unwrap();
        Self { dir, settings, log: LogFile::new("engine".to_owned()) }
    }

    fn say(&mut self, line: &str) -> Option<String> {
        self.log.write(&format!("{line}\n"), &self.settings)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("data/log").join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn full_files_are_set_aside_no_line_is_lost_and_the_oldest_go() {
    let mut bench = Bench::new();
    for number in 0..100 {
        assert_eq!(bench.say(&format!("line {number:05}, twenty bytes")), None);
    }
    let names = ["engine.log", "engine.log.1", "engine.log.2", "engine.log.3"];
    assert_eq!(bench.names(), names);
    let kept: String = names.iter().rev().map(|name| bench.text(name)).collect();
    let expected: Vec<_> = (84..100).map(|n| format!("line {n:05}, twenty bytes")).collect();
    assert_eq!(kept.lines().collect::<Vec<_>>(), expected, "in order and without a gap");
    for name in names {
        assert_eq!(fs::metadata(bench.path(name)).unwrap().mode() & 0o777, 0o600);
    }
    // With fewer to keep those beyond go too.
    bench.settings.keep = 1;
    (0..5).for_each(|n| assert_eq!(bench.say(&format!("more {n}, and twenty bytes")), None));
    assert_eq!(bench.names(), ["engine.log", "engine.log.1"]);
}

#[test]
fn what_was_set_aside_is_compressed_and_can_be_read() {
    let mut bench = Bench::new();
    bench.settings.compress = true;
    for number in 0..20 {
        assert_eq!(bench.say(&format!("line {number:05}, twenty bytes")), None);
    }
    bench.log.finish_packing();
    let names = ["engine.log", "engine.log.1.gz", "engine.log.2.gz", "engine.log.3.gz"];
    assert_eq!(bench.names(), names);
    let mut text = String::new();
    let file = File::open(bench.path("engine.log.1.gz")).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    assert_eq!(text.lines().count(), 4, "{text}");
}

#[test]
fn a_new_day_has_a_new_file() {
    let mut bench = Bench::new();
    bench.settings.max_size = 1 << 20;
    bench.settings.rotate = Rotate::Daily;
    bench.say("yesterday");
    drop(bench.log.open.take());
    let file = File::options().append(true).open(bench.path("engine.log")).unwrap();
    let day_before = Duration::from_hours(48);
    file.set_modified(file.metadata().unwrap().modified().unwrap() - day_before).unwrap();
    bench.say("today");
    bench.say("today too");
    assert_eq!(bench.text("engine.log"), "today\ntoday too\n");
    assert_eq!(bench.text("engine.log.1"), "yesterday\n");
}

// spec: LOG-001
#[test]
fn two_processes_of_one_name_never_write_one_file() {
    let mut bench = Bench::new();
    bench.say("first");
    let mut other = LogFile::new("engine".to_owned());
    assert_eq!(other.write("second\n", &bench.settings), None);
    bench.say("third");
    assert_eq!(bench.text("engine.log"), "first\nthird\n");
    assert_eq!(bench.text("engine-2.log"), "second\n");
}

// spec: LOG-005
#[test]
fn a_file_that_was_moved_or_removed_is_made_anew() {
    let mut bench = Bench::new();
    bench.say("one");
    fs::remove_dir_all(bench.path("")).unwrap();
    bench.log.open.as_mut().unwrap().looked = Millis(0);
    bench.say("two");
    assert_eq!(bench.text("engine.log"), "two\n");
}

// spec: LOG-002
#[test]
fn no_log_brings_a_data_directory_back_and_early_lines_wait_for_it() {
    let mut bench = Bench::new();
    fs::remove_dir(bench.dir.path().join("data")).unwrap();
    assert_eq!(bench.say("early"), None);
    assert!(!bench.dir.path().join("data").exists());
    fs::create_dir(bench.dir.path().join("data")).unwrap();
    assert_eq!(bench.say("later"), None);
    assert_eq!(bench.text("engine.log"), "early\nlater\n");
}

#[test]
fn what_cannot_be_written_is_told_once_and_counted_and_told_again_when_it_works() {
    let mut bench = Bench::new();
    // A file where the directory should be: not even root can write there.
    let log = bench.dir.path().join("data/log");
    File::create(&log).unwrap();
    let told = bench.say("lost").unwrap();
    assert!(told.contains("cannot be written") && told.contains("engine.log"), "{told}");
    (0..50).for_each(|_| assert_eq!(bench.say("lost too"), None));
    fs::remove_file(&log).unwrap();
    assert_eq!(bench.say("not tried yet"), None);
    assert!(!log.exists(), "it is left alone for a while");
    bench.log.trouble.as_mut().unwrap().again = Millis(0);
    assert_eq!(bench.say("back"), None);
    let text = bench.text("engine.log");
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].contains(" WARN 52 lines since ") && lines[1] == "back", "{text}");
    assert_eq!(lines.len(), 2);
}
