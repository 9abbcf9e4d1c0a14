//! `packaging/`: what an init system would say of it, as far as one is here to ask.

use super::is_here;
use midwatch::config::{Config, Named, Place, Surroundings};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

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
        assert_eq!(has("WatchdogSec=60"), whole, "{name}: and WATCHDOG=1");
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
        let around = Surroundings {
            uid: 0,
            home: None,
            config_home: None,
            state_home: None,
            runtime_dir: None,
            system_config: "/nonexistent/midwatch.toml".into(),
        };
        let config = Config::load(&named, &around).unwrap();
        assert_eq!(config.data_dir, Path::new("/var/lib/midwatch"));
        assert!(!config.handlers.is_empty());
    }
}
