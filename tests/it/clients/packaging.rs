//! `packaging/`: what an init system would say of it, as far as one is here to ask.

use super::is_here;
use crate::eventually::eventually;
use midwatch::config::{Config, Named, Place, Surroundings};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const PACKAGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging");

fn units(scope: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(format!("{PACKAGING}/systemd/{scope}")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// What systemd says of a unit whose program is the one under test.
fn verify(unit: &str, name: &str, user: bool) -> (bool, String) {
    let dir = tempfile::tempdir().unwrap();
    let ours = env!("CARGO_BIN_EXE_midwatch");
    let unit =
        unit.replace("/usr/local/bin/midwatch", ours).replace("%h/.local/bin/midwatch", ours);
    let path = dir.path().join(name.replace('@', "@w1"));
    fs::write(&path, unit).unwrap();
    let mut command = Command::new("systemd-analyze");
    command.args(user.then_some("--user")).args(["--man=no", "verify"]).arg(&path);
    let output = command.env("XDG_RUNTIME_DIR", dir.path()).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    if !is_here("systemd-analyze", &["--version"]) {
        return;
    }
    let system = units("system");
    assert_eq!(system.len(), 3);
    for (path, user) in
        system.iter().map(|path| (path, false)).chain(units("user").iter().map(|path| (path, true)))
    {
        let (text, name) = (fs::read_to_string(path).unwrap(), path.file_name().unwrap());
        let (fine, said) = verify(&text, name.to_str().unwrap(), user);
        assert!(fine && said.trim().is_empty(), "{}: {said}", path.display());
        // The check sees what is wrong.
        let (_, said) = verify(&text.replace("Restart=", "Rstart="), name.to_str().unwrap(), user);
        assert!(said.contains("Rstart"), "{}: {said}", path.display());
    }
}

#[test]
fn the_units_of_the_whole_watchman_ask_for_what_the_supervisor_tells() {
    for path in units("system").into_iter().chain(units("user")) {
        let text = fs::read_to_string(&path).unwrap();
        let has = |line: &str| text.lines().any(|there| there == line);
        let name = path.file_name().unwrap().to_str().unwrap();
        let whole = name == "midwatch.service";
        assert_eq!(has("Type=notify"), whole, "{name}: only the supervisor says READY=1");
        assert_eq!(has("WatchdogSec=180"), whole, "{name}: and WATCHDOG=1");
        assert!(has("Restart=always") && text.contains("\nRestartPreventExitStatus=2"), "{name}");
        let has_handlers = name != "midwatch-engine.service";
        for line in ["Delegate=yes", "KillMode=mixed", "OOMPolicy=continue"] {
            assert_eq!(has(line), has_handlers, "{name}: {line}");
        }
        // An engine that is restarted takes no worker along.
        for word in ["Requires=", "BindsTo=", "PartOf=", "PrivateTmp=yes", "ProtectProc="] {
            let said = text.lines().any(|line| line.starts_with(word));
            assert!(!said, "{name}: {word}");
        }
    }
}

#[test]
fn the_scripts_are_whole_and_may_be_run() {
    for script in [
        "s6/midwatch/run",
        "s6/midwatch/finish",
        "s6/midwatch/data/check",
        "runit/midwatch/run",
        "runit/midwatch/finish",
        "runit/midwatch/check",
        "openrc/midwatch",
    ] {
        let path = Path::new(PACKAGING).join(script);
        assert_ne!(fs::metadata(&path).unwrap().permissions().mode() & 0o111, 0, "{script}");
        assert!(Command::new("sh").arg("-n").arg(&path).status().unwrap().success(), "{script}");
    }
}

// 2 and 6: another start changes nothing, so s6 and runit are told to leave it down.
#[test]
fn a_hopeless_end_keeps_it_down_and_no_other_does() {
    let bin = tempfile::tempdir().unwrap();
    let sv = bin.path().join("sv");
    fs::write(&sv, "#!/bin/sh\necho \"sv $*\"\n").unwrap();
    fs::set_permissions(&sv, fs::Permissions::from_mode(0o755)).unwrap();
    let finish = |init: &str, code: &str| {
        let mut command = Command::new(format!("{PACKAGING}/{init}/midwatch/finish"));
        let path = std::env::var("PATH").unwrap();
        command.arg(code).arg("0").env("PATH", format!("{}:{path}", bin.path().display()));
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    for code in ["2", "6"] {
        assert_eq!(finish("s6", code).0, Some(125));
        assert_eq!(finish("runit", code), (Some(0), "sv down .\n".to_owned()));
    }
    for code in ["0", "1", "7", "256", "-1"] {
        assert_eq!(finish("s6", code).0, Some(0));
        assert_eq!(finish("runit", code), (Some(0), String::new()));
    }
}

/// A service directory as an init has it, under that init; ends with it.
struct Service {
    dir: tempfile::TempDir,
    supervisor: Child,
}

impl Service {
    /// Runs the program under test as whoever we are, in places of its own.
    fn start(init: &str, files: &[&str], supervisor: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (config, data) = (dir.path().join("midwatch.toml"), dir.path().join("data"));
        fs::write(&config, format!("data_dir = \"{}\"\n", data.display())).unwrap();
        fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
        for file in files {
            let from = Path::new(PACKAGING).join(init).join("midwatch").join(file);
            let to = dir.path().join("service").join(file);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(&from, &to).unwrap();
            let text = fs::read_to_string(&from).unwrap();
            let text = text
                .replace("/usr/local/bin/midwatch", env!("CARGO_BIN_EXE_midwatch"))
                .replace("/etc/midwatch/midwatch.toml", config.to_str().unwrap())
                .replace("s6-setuidgid midwatch", "env")
                .replace("chpst -u midwatch:midwatch", "env")
                .replace("\nchown ", "\n: chown ")
                .replace("/var/lib/midwatch", data.to_str().unwrap())
                .replace(" /run/midwatch", "");
            fs::write(&to, text).unwrap();
        }
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let mut command = Command::new(supervisor);
        command.arg(dir.path().join("service")).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        Self { supervisor: command.spawn().unwrap(), dir }
    }

    /// Runs a tool of the init on the service: whether it succeeded, and what it printed.
    fn tell(&self, words: &str) -> (bool, String) {
        let words: Vec<&str> = words.split(' ').collect();
        let mut command = Command::new(words[0]);
        let output = command.args(&words[1..]).arg(self.dir.path().join("service")).output();
        let output = output.unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    fn is_served(&self) -> bool {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midwatch"));
        command.arg("--config").arg(self.dir.path().join("midwatch.toml")).arg("status");
        command.output().unwrap().status.success()
    }

    fn spoil_the_config(&self) {
        fs::write(self.dir.path().join("midwatch.toml"), "nonsense = 1\n").unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Both take it as: bring the service down, then end.
        let pid = Pid::from_child(&self.supervisor);
        if kill_process(pid, Signal::TERM).is_ok() {
            let _status = self.supervisor.wait();
        }
    }
}

#[test]
fn s6_knows_when_it_serves_drains_it_and_leaves_a_hopeless_one_down() {
    if !is_here("s6-setsid", &["true"]) {
        return;
    }
    let files = ["run", "finish", "data/check", "notification-fd", "timeout-kill"];
    let service = Service::start("s6", &files, "s6-supervise");
    eventually("it is supervised", || service.tell("s6-svok").0.then_some(()));
    assert!(service.tell("s6-svwait -U -t 60000").0, "{}", service.log());
    assert!(service.is_served(), "{}", service.log());
    assert!(service.tell("s6-svc -d -wD -T 60000").0, "{}", service.log());
    assert!(service.log().contains("stopping: the workers first"), "{}", service.log());
    service.spoil_the_config();
    assert!(service.tell("s6-svc -u").0);
    eventually("it stays down", || {
        let (_, state) = service.tell("s6-svstat -o up,wantedup,exitcode");
        (state == "false false 2").then_some(())
    });
}

#[test]
fn runit_knows_when_it_serves_drains_it_and_leaves_a_hopeless_one_down() {
    if !is_here("chpst", &["true"]) {
        return;
    }
    let service = Service::start("runit", &["run", "finish", "check"], "runsv");
    eventually("it serves", || service.tell("sv -w 60 start").0.then_some(()));
    assert!(service.is_served(), "{}", service.log());
    assert!(service.tell("sv -w 60 stop").0, "{}", service.log());
    assert!(service.log().contains("stopping: the workers first"), "{}", service.log());
    service.spoil_the_config();
    service.tell("sv up");
    eventually("it stays down", || {
        let (_, state) = service.tell("sv status");
        let is_down = state.starts_with("down:") && !state.contains("want up");
        (is_down && service.log().contains("unknown key")).then_some(())
    });
}

#[test]
fn the_configs_are_good() {
    for config in [
        "packaging/midwatch.toml",
        "packaging/container/midwatch.toml",
        "examples/handlers/midwatch.toml",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("midwatch.toml");
        // A config that others may write to is refused, and so is a checkout that they may.
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(config), &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let origin = midwatch::config::Origin::Flag("--config");
        let named = Named { config: Some(Place { path, origin }), ..Named::default() };
        let around = Surroundings::default();
        let config = Config::load(&named, &around).unwrap();
        assert_eq!(config.data_dir, Path::new("/var/lib/midwatch"));
        assert!(!config.handlers.is_empty());
    }
}
