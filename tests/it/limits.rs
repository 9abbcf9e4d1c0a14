//! What surrounds a handler's process: its control group, its limits, its user, its directory.
//!
//! Some of it takes root or a writable cgroup v2; where that is not there the test says so and
//! shows nothing.

use crate::process::{Bench, output, store};
use midwatch::kernel::ids::{Fence, Millis};
use midwatch::process::{self, Groups, Held, Identity, Limits, StartError, Started, group};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;

/// The place of control groups; without one the test is skipped, loudly.
pub(crate) fn groups(test: &str) -> Option<Groups> {
    match Groups::find(false) {
        Ok(groups) => Some(groups),
        Err(why) => {
            eprintln!("SKIPPED {test}: {why}");
            None
        }
    }
}

/// Whether this is root; without that the test is skipped, loudly.
pub(crate) fn is_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIPPED {test}: it takes root");
    }
    root
}

fn run(bench: &Bench, fence: u64, script: &str, limits: Limits) -> Result<Started, StartError> {
    bench.start_with(fence, &["sh", "-c", script], |start| start.limits = limits)
}

// spec: PRC-034, PRC-035
#[test]
fn what_escapes_every_other_mark_dies_with_its_control_group() {
    let Some(_) = groups("the escape from a control group") else { return };
    let bench = Bench::new();
    // No session, no environment, no parent: nothing of it shows whose it is.
    let script = "
        (env -i setsid sh -c 'echo $$ > '$DIR'/bare; exec sleep 600' >/dev/null 2>&1 &)
        sleep 600";
    let started = bench.sh(301, script);
    let bare = bench.pid_in("bare");
    let group = started.group.clone().expect("it has one");
    let name = group.file_name().unwrap().to_str().unwrap();
    assert_eq!(name, format!("midwatch-{}-1-301", store()));
    let claim = process::read_claim(bench.run_dir(), Fence(301)).unwrap();
    assert!(matches!(claim, Some(Held::Claim { group: Some(path), .. }) if path == group));
    assert!(group::is_populated(&group).unwrap());
    let swept = bench.sweep(301);
    assert!(swept.killed.iter().any(|killed| killed.pid == bare.pid), "{swept:?}");
    assert!(!process::is_alive(&bare).unwrap() && !process::is_alive(&started.process).unwrap());
    assert!(!group.exists());
    assert_eq!(bench.sweep(301).killed, vec![]);
}

// spec: PRC-036
#[test]
fn empty_groups_that_no_claim_names_are_collected_and_no_others() {
    if groups("the collection of control groups").is_none() {
        return;
    }
    let bench = Bench::new();
    let living = bench.sh(910, "sleep 600").group.expect("it has one");
    let beside = |task: u64, fence: u64, of: &str| {
        let path = living.with_file_name(format!("midwatch-{of}-{task}-{fence}"));
        fs::create_dir(&path).unwrap();
        path
    };
    let other = format!("{:032x}", rand::random::<u128>());
    let (old, new, foreign) =
        (beside(1, 911, store()), beside(1, 999, store()), beside(1, 912, &other));
    fs::create_dir(old.join("made-by-a-handler")).unwrap();
    group::collect(store(), |fence| (900..950).contains(&fence.0)).unwrap();
    assert!(!old.exists(), "it was empty and of no use");
    assert!(living.exists() && new.exists() && foreign.exists());
    bench.sweep(910);
    for path in [new, foreign] {
        fs::remove_dir(path).unwrap();
    }
}

// spec: PRC-050
#[test]
fn limits_hold_in_the_handler_and_nothing_of_the_kind_without_them() {
    let script = "ulimit -n; ulimit -t; ulimit -Ht; ulimit -v; umask; nice";
    let limits = Limits {
        memory: Some(512 << 20),
        cpu_time: Some(Millis(1500)),
        open_files: Some(77),
        nice: Some(7),
        umask: Some(0o027),
        ..Limits::default()
    };
    // Without control groups: those may take the bound of memory over.
    let bench = Bench::with(None);
    let started = run(&bench, 320, script, limits).unwrap();
    let text = output(&started);
    assert_eq!(text, "77\n2\n7\n524288\n0027\n7\n");
    assert_eq!((started.group, started.memory_is_counted), (None, false));
    let bare = output(&run(&bench, 321, script, Limits::default()).unwrap());
    let here = Command::new("sh").args(["-c", script]).output().unwrap();
    assert_eq!(bare, String::from_utf8(here.stdout).unwrap());
}

// spec: PRC-050
#[test]
fn the_number_of_processes_is_bounded() {
    if !is_root("the bound of processes") {
        return;
    }
    let bench = Bench::new();
    open_the_way(&bench);
    // Not the first user of another, whose processes would count too.
    let identity = Some(Identity { uid: 54_321, gid: 54_321, groups: vec![], entry: None });
    let limits = Limits { processes: Some(3), identity, ..Limits::default() };
    let script = "i=0; while [ $i -lt 20 ]; do sleep 5 & i=$((i+1)); done 2>/dev/null; echo all";
    let started = run(&bench, 330, script, limits).unwrap();
    assert_eq!(output(&started), "", "a shell that cannot fork ends");
    bench.sweep(330);
    // A start beyond the bound is the attempt's own failure; the host can start others.
    let identity = Some(Identity { uid: 54_322, gid: 54_322, groups: vec![], entry: None });
    let unbounded = Limits { identity, ..Limits::default() };
    let _holds_the_only_place = run(&bench, 331, "sleep 600", unbounded.clone()).unwrap();
    let limits = Limits { processes: Some(1), ..unbounded };
    let refused = run(&bench, 332, "true", limits).err().unwrap();
    let StartError::Limit(why) = refused else { panic!("{refused:?}") };
    assert!(why.contains("`processes`"), "{why}");
    bench.sweep(331);
}

/// Lets other users pass as far as to the data directory, as they may in `/var/lib`.
fn open_the_way(bench: &Bench) {
    let data = bench.run_dir().parent().unwrap();
    fs::set_permissions(data, fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(data.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
}

// spec: PRC-051, PRC-052, HND-005
#[test]
fn a_handler_of_another_user_has_its_own_directory_and_no_way_into_ours() {
    if !is_root("the handler of another user") {
        return;
    }
    let bench = Bench::new();
    let (nobody, groups) = (54_322, vec![54_330, 54_331]);
    let identity = Identity { uid: nobody, gid: 54_323, groups, entry: None };
    let limits = Limits { identity: Some(identity), ..Limits::default() };
    let script = "id -u; id -g; id -G; echo x > $TMPDIR/file && cat $MIDWATCH_CHECKPOINT_FILE; echo
        ls $DIR 2>/dev/null; ls $TMPDIR/.. 2>/dev/null; touch $TMPDIR/../other 2>/dev/null
        ls $TMPDIR; echo $TMPDIR";
    let start = |fence: u64, script: &str| {
        bench.start_with(fence, &["sh", "-c", script], |start| {
            start.limits = limits.clone();
            start.cwd = Some("/".into());
            start.checkpoint = Some(b"[7]".to_vec());
        })
    };
    // The way to it is closed to others, and that is told.
    let above = bench.run_dir().parent().unwrap().parent().unwrap();
    fs::set_permissions(above, fs::Permissions::from_mode(0o700)).unwrap();
    let Err(StartError::Command(why)) = start(340, script) else { panic!("it cannot reach it") };
    assert!(why.contains("user 54322 cannot reach "), "{why}");
    open_the_way(&bench);
    let started = start(341, script).unwrap();
    let tmp = process::foreign_tmp_dir(bench.run_dir(), Fence(341));
    assert_eq!(
        output(&started),
        format!("54322\n54323\n54323 54330 54331\n[7]\ncheckpoint.json\nfile\n{}\n", tmp.display())
    );
    let mode = |path: &PathBuf| {
        let facts = fs::metadata(path).unwrap();
        (facts.uid(), facts.mode() & 0o777)
    };
    assert_eq!(mode(&tmp), (nobody, 0o700));
    assert_eq!(mode(&process::foreign_dir(bench.run_dir())), (0, 0o711));
    // Its worker gone, the sweep removes it too.
    let hidden = start(342, "sleep 600").unwrap();
    bench.sweep(342);
    assert!(!process::is_alive(&hidden.process).unwrap());
    assert!(!process::foreign_tmp_dir(bench.run_dir(), Fence(342)).exists());
    process::remove(bench.run_dir(), Fence(341)).unwrap();
    assert!(!tmp.exists());
}

// spec: PRC-050
#[test]
fn a_limit_that_cannot_be_set_is_told() {
    let bench = Bench::new();
    // The kernel has no descriptor of that number, for root neither.
    let limits = Limits { open_files: Some(1 << 40), ..Limits::default() };
    let Err(StartError::Command(why)) = run(&bench, 350, "exit 0", limits) else {
        panic!("it ran")
    };
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap();
    let said = format!("`open_files` is 1099511627776, above the {most} that the hard limit");
    assert!(why.contains(&said), "{why}");
}

// spec: HND-070
#[test]
fn who_does_not_exist_is_refused_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("midwatch.toml");
    for (line, why) in [
        ("user = \"no-such-user\"", "`handlers.a.user`: there is no user `no-such-user` in"),
        ("group = \"no-such-group\"", "`handlers.a.group`: there is no group `no-such-group`"),
    ] {
        let data = dir.path().join("data").display().to_string();
        let text = format!("data_dir = {data:?}\n[handlers.a]\ncommand = [\"true\"]\n{line}\n");
        fs::write(&config, text).unwrap();
        fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
        for command in [&["daemon"][..], &["worker"], &["config", "check"]] {
            let mut it = Command::new(env!("CARGO_BIN_EXE_midwatch"));
            let ended = it.arg("--config").arg(&config).args(command).output().unwrap();
            let told = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert_eq!(ended.status.code(), Some(2), "{command:?}: {told}");
            assert!(told.contains(why), "{command:?}: {told}");
        }
    }
    assert!(!dir.path().join("data").exists());
}

// spec: PRC-053
#[test]
fn what_a_leader_used_is_told_when_it_is_reaped() {
    let bench = Bench::new();
    let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 0";
    let started = bench.sh(360, script);
    output(&started);
    let used =
        crate::eventually::eventually("it ended", || process::reap(started.process.pid).unwrap());
    assert!(used.cpu > Millis(10), "{used:?}");
    assert!((100 << 10..1 << 30).contains(&used.peak_memory), "{used:?}");
    if let Some(group) = &started.group {
        let counted = group::counted(group);
        assert!(counted.cpu.is_some_and(|cpu| cpu > Millis(10)), "{counted:?}");
        assert_eq!(counted.oom_kills, 0);
    }
    bench.sweep(360);
}
