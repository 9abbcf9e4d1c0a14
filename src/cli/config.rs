//! `midwatch config`: is it good, and what is in force.

use super::failure::{Failure, exit};
use super::session::{Format, Session};
use super::text::{cut, tame, width};
use crate::config::{Config, Effective, Named, Origin, Place};
use crate::server;
use serde_json::json;
use std::path::PathBuf;

/// What to do with the config.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Check it; exits 2 and says where when something is wrong
    Check {
        /// The file [default: the one in force]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Show every value in force, and where it came from
    Show,
}

/// Does it. Needs no daemon.
pub(crate) fn run(command: &Command, session: &mut Session<'_>) -> Result<u8, Failure> {
    match command {
        Command::Check { file } => check(file.as_ref(), session)?,
        Command::Show => show(session)?,
    }
    Ok(exit::DONE)
}

fn check(file: Option<&PathBuf>, session: &mut Session<'_>) -> Result<(), Failure> {
    let mut named: Named = session.named.clone();
    if let Some(path) = file {
        named.config = Some(Place { path: path.clone(), origin: Origin::Flag("FILE") });
    }
    let config = Config::load(&named, &session.environment.surroundings)?;
    server::check_names(&config).map_err(|why| Failure::new(2, why))?;
    server::check_files(&config).map_err(|why| Failure::new(2, why))?;
    let names: Vec<_> = config.handlers.keys().collect();
    let schedules: Vec<_> = config.schedules.keys().collect();
    match session.format {
        Format::Json | Format::Ndjson => {
            session.json(&json!({ "file": config.file, "handlers": names, "schedules": schedules }))
        }
        Format::Table => {
            let counted = |number: usize, what: &str| match number {
                1 => format!("1 {what}"),
                number => format!("{number} {what}s"),
            };
            let mut said = match &config.file {
                None => "there is no config; the built-in values serve".to_owned(),
                Some(file) => {
                    format!("{} is good, {}", file.display(), counted(names.len(), "handler"))
                }
            };
            if !schedules.is_empty() {
                said += &format!(", {}", counted(schedules.len(), "schedule"));
            }
            session.print(&format!("{said}\n"))
        }
    }
}

fn show(session: &mut Session<'_>) -> Result<(), Failure> {
    let config = session.config()?;
    let values = config.effective();
    match session.format {
        Format::Json => session.json(&json!({ "file": config.file, "values": values })),
        Format::Ndjson => values.iter().try_for_each(|value| session.json(value)),
        Format::Table => {
            let text: String = values.iter().map(|value| line(value, session.view.width)).collect();
            session.print(&text)
        }
    }
}

/// One value as a line of TOML, its origin as a comment.
fn line(effective: &Effective, screen: Option<usize>) -> String {
    let Effective { key, value, origin } = effective;
    let assignment = match value {
        Some(value) => tame(&format!("{key} = {value}")),
        None => format!("# {key} is not set"),
    };
    let gap = 44_usize.saturating_sub(width(&assignment)).max(2);
    let line = format!("{assignment}{}# {origin}", " ".repeat(gap));
    match screen {
        Some(screen) => format!("{}\n", cut(&line, screen)),
        None => format!("{line}\n"),
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::samples;
    use expect_test::expect;

    #[test]
    fn what_is_in_force_is_shown_with_its_origin_and_is_itself_a_config() {
        let played = samples::play("config show --data-dir /srv/m", &[]);
        expect![[r#"
            data_dir = "/srv/m"                         # flag --data-dir
            socket = "/srv/m/midwatch.sock"             # default
            journal.fsync = "always"                    # default
            journal.on_suspicious_tail = "quarantine"   # default
            journal.segment_size = "4MiB"               # default
            journal.snapshot_after = "16MiB"            # default
            journal.reserve = "4MiB"                    # default
            worker.processes = 1                        # default
            worker.slots = 2                            # default
            worker.heartbeat = "30s"                    # default
            worker.suspect_after = "1m30s"              # default
            worker.offline_after = "5m"                 # default
            # worker.memory_max is not set              # default
            retry.max_retry = 5                         # default
            retry.base = "30s"                          # default
            retry.cap = "1h"                            # default
            # retry.intervals is not set                # default
            retry.max_lost = 10                         # default
            retention.finished = "7d"                   # default
            retention.max_finished = 100000             # default
            retention.keys = "1d"                       # default
            retention.logs = "1GiB"                     # default
            # retention.archive is not set              # default
            retention.max_state = "256MiB"              # default
            dispatch.promote_after = "15m"              # default
            # dispatch.reserve is not set               # default
            log.level = "info"                          # default
            log.format = "text"                         # default
            # log.dir is not set                        # default
            log.rotate = "size"                         # default
            log.max_size = "50MB"                       # default
            log.keep = 10                               # default
            log.compress = false                        # default
            # http.socket_group is not set              # default
            # http.operate_group is not set             # default
            # http.listen is not set                    # default
            # http.token_file is not set                # default
            http.hosts = []                             # default
            http.open_metrics = false                   # default
            clock.wait_for_sync = false                 # default
        "#]]
        .assert_eq(&played.out);
        assert!(played.out.parse::<toml::Table>().is_ok());
        let json = samples::play("config show --json --data-dir /srv/m", &[]).out;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["file"], serde_json::Value::Null);
        assert_eq!(json["values"][0]["key"], "data_dir");
        assert_eq!(json["values"][0]["origin"], "flag --data-dir");
        assert_eq!(json["values"][8]["value"], 2);
    }

    #[test]
    fn a_check_exits_2_with_the_line_of_the_fault() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.toml");
        samples::write(&path, "[handlers.a]\ncommand = ['/bin/true']\n");
        let check = |path: &str| samples::play(&format!("config check {path}"), &[]);
        let played = check(path.to_str().unwrap());
        assert!(played.out.ends_with("a.toml is good, 1 handler\n"), "{played}");
        samples::write(&path, "[handlers.a]\ncommand = ['x']\nschema = '/none.json'\n");
        let played = check(path.to_str().unwrap());
        assert!(played.to_string().contains("the schema /none.json: cannot open it"), "{played}");
        samples::write(&path, "[worker]\nslotts = 1\n");
        let played = check(path.to_str().unwrap());
        let said = played.to_string().replace(dir.path().to_str().unwrap(), "DIR");
        expect![[r#"
            exit 2
            --- stdout
            --- stderr
            error: unknown key `slotts` in worker (DIR/a.toml, line 2)
              did you mean `slots`?
        "#]]
        .assert_eq(&said);
        assert_eq!(samples::play("config check", &[]).code, 0);
    }
}
