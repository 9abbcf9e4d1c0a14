//! Clients whose config broke while the daemon runs on: they need only the socket.

use super::fixture::Server;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Writes the config of the user whose `XDG_CONFIG_HOME` is `DIR/xdg`.
fn write_config(dir: &Path, text: &str) -> PathBuf {
    let file = dir.join("xdg/midwatch/midwatch.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    file
}

/// Runs a command of that user, to whom nobody said more than `words`.
fn ask(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_midwatch"));
    command.args(words).env_clear().current_dir(dir);
    command.env("HOME", dir.join("home")).env("XDG_CONFIG_HOME", dir.join("xdg"));
    command.output().unwrap()
}

fn said(output: &Output, dir: &Path) -> String {
    String::from_utf8_lossy(&output.stderr).replace(dir.to_str().unwrap(), "DIR")
}

#[test]
fn a_config_that_broke_warns_a_client_and_hinders_none() {
    let server = Server::start();
    let dir = server.dir.path();
    let data = dir.join("data").display().to_string();
    let faults = [
        ("[worker]\nslots = \n", "this is not TOML: ", 3),
        ("[worker]\nslotts = 2\n", "unknown key `slotts` in worker", 3),
    ];
    for (text, fault, line) in faults {
        // The file names the place, or the command does.
        let names = format!("data_dir = '{data}'\n{text}");
        for (text, line, flags) in
            [(names.as_str(), line, &[][..]), (text, line - 1, &["--data-dir", data.as_str()][..])]
        {
            write_config(dir, text);
            let id = server.submit(&json!({ "type": "render" })).to_string();
            let output = ask(dir, &[&["cancel", id.as_str()], flags].concat());
            let told = said(&output, dir);
            assert_eq!(output.status.code(), Some(0), "{text}\n{told}");
            assert!(told.starts_with(&format!("warning: {fault}")), "{told}");
            let place = format!("(DIR/xdg/midwatch/midwatch.toml, line {line})\n");
            assert!(told.contains(&place), "{told}");
            let asked = "  asking at DIR/data/midwatch.sock; `midwatch config check` tells all\n";
            assert_eq!(told.matches(asked).count(), 1, "{told}");
            assert_eq!(server.get(&format!("/v1/tasks/{id}")).json()["status"], "CANCELLED");
            let quiet = ask(dir, &[&["-q", "list"], flags].concat());
            assert_eq!((quiet.status.code(), said(&quiet, dir)), (Some(0), String::new()));
            // Who needs more of it than the places is refused.
            for words in [&["daemon"][..], &["engine"], &["worker"], &["config", "show"]] {
                let output = ask(dir, &[words, flags].concat());
                assert_eq!(output.status.code(), Some(2), "{words:?}");
                assert!(said(&output, dir).starts_with("error: "), "{words:?}");
            }
        }
    }
}

/// The usual socket may be that of another daemon, whose tasks have the same numbers.
#[test]
fn a_named_config_that_cannot_be_read_needs_the_place_named_beside_it() {
    let server = Server::start();
    let dir = server.dir.path();
    write_config(dir, &format!("data_dir = '{}'\n", dir.join("data").display()));
    assert_eq!(ask(dir, &["list"]).status.code(), Some(0));
    let words = ["list", "--config", "absent.toml"];
    let output = ask(dir, &words);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(said(&output, dir), "error: cannot read the config absent.toml: no such file\n");
    let data = dir.join("data").display().to_string();
    let output = ask(dir, &[&words[..], &["--data-dir", &data]].concat());
    assert_eq!(output.status.code(), Some(0));
    assert!(said(&output, dir).starts_with("warning: cannot read the config absent.toml"));
}

#[test]
fn a_config_that_others_may_write_does_not_say_where_a_client_goes() {
    let server = Server::start();
    let dir = server.dir.path();
    let file = write_config(dir, &format!("socket = '{}'\n", server.socket().display()));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o622)).unwrap();
    let other = dir.join("other").display().to_string();
    let output = ask(dir, &["list", "--data-dir", &other]);
    assert_eq!(output.status.code(), Some(5));
    let told = said(&output, dir);
    assert!(told.contains("asking at DIR/other/midwatch.sock"), "{told}");
    assert!(told.contains("not reachable at DIR/other/midwatch.sock"), "{told}");
}
