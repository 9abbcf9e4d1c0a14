//! Configs: any text is taken whole or refused with a place in it; what is in force, printed, is a
//! config that says the same.

use midwatch::config::{Config, ConfigError, Effective, Named, Origin, Place, Surroundings};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// One file for this process, in memory where there is such a place.
static FILE: Mutex<()> = Mutex::new(());

/// Reads a config as the daemon would.
pub fn load(text: &[u8]) -> Result<Config, ConfigError> {
    let _one_at_a_time = FILE.lock().unwrap_or_else(PoisonError::into_inner);
    let memory = PathBuf::from("/dev/shm");
    let dir = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let path = dir.join(format!("midwatch-fuzz-{}.toml", std::process::id()));
    fs::write(&path, text).expect("there is room for a small file");
    let uid = fs::metadata(&path).expect("it was just written").uid();
    let around = Surroundings {
        uid,
        home: None,
        config_home: None,
        state_home: None,
        runtime_dir: None,
        system_config: "/nonexistent/midwatch.toml".into(),
    };
    let place = Place { path: path.clone(), origin: Origin::Flag("--config") };
    let data = Place { path: "/srv/midwatch".into(), origin: Origin::Flag("--data-dir") };
    let named = Named { config: Some(place), data_dir: Some(data), socket: None };
    let loaded = Config::load(&named, &around);
    fs::remove_file(&path).expect("it was just written");
    loaded
}

/// What is in force, as the text of a config.
fn printed(config: &Config) -> String {
    let mut text = String::new();
    for Effective { key, value, .. } in config.effective() {
        if let Some(value) = value {
            text.push_str(&format!("{key} = {value}\n"));
        }
    }
    text
}

pub fn run(input: &[u8]) {
    match load(input) {
        Ok(config) => {
            let text = printed(&config);
            let again = load(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(printed(&again), text);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

pub const FULL: &str = r#"data_dir = "/srv/midwatch"
socket = "/run/m.sock"
[journal]
fsync = "interval:200ms"
segment_size = "1MiB"
reserve = "1MiB"
[worker]
processes = 0
heartbeat = "1s"
suspect_after = "3s"
offline_after = "10s"
[retry]
max_retry = 7
intervals = ["30s", "1m"]
[log]
level = "debug"
[http]
operate_group = "ops"
[handlers.fetch_data]
command = ["/usr/local/bin/fetch", "--batch", "1000"]
cwd = "/srv"
env = { LANG = "C", "a-b" = "x" }
env_pass = ["TZ"]
timeout = "10m"
log_max = "1MiB"
retry = { max_retry = 3, base = "10s" }
retryable_exit_codes = [64]
[handlers."report.daily"]
command = ["report"]
"#;

pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let texts = [
        ("empty", ""),
        ("full", FULL),
        ("not-toml", "a = [1,\n"),
        ("unknown", "[journal]\nfsink = \"always\"\n"),
        ("contradiction", "[worker]\nheartbeat = \"10s\"\nsuspect_after = \"1s\"\n"),
        ("escaped", "[handlers.\"a\\u0000b\"]\ncommand = [\"\\u00e9\"]\n"),
        ("numbers", "retry.max_retry = 0x7\nworker.slots = -1\n"),
        ("dotted", "handlers.a.command = [\"x\"]\nhandlers.a.env.\"\" = \"\"\n"),
    ];
    texts.into_iter().map(|(name, text)| (name, text.as_bytes().to_vec())).collect()
}
