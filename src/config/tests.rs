mod alerts;
mod schedules;

use super::*;
use expect_test::{Expect, expect};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Reads `text` as the file `midwatch.toml` and prints what is wrong as the command line would.
fn check_faults(text: &str, expected: &Expect) {
    let error = sections::read_text(Path::new("midwatch.toml"), text).err();
    let mut said = String::new();
    for fault in error.iter().flat_map(|error| &error.faults) {
        writeln!(said, "error: {fault}").unwrap();
        fault.help().iter().for_each(|help| writeln!(said, "  {help}").unwrap());
    }
    expected.assert_eq(&said);
}

/// Surroundings in which only `dir` exists.
fn around(dir: &Path, uid: u32) -> Surroundings {
    Surroundings {
        uid,
        home: Some(dir.join("home")),
        config_home: None,
        state_home: None,
        runtime_dir: Some(dir.join("run")),
        system_config: dir.join("etc/midwatch/midwatch.toml"),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the places take options")]
fn flag(path: &Path) -> Option<Place> {
    Some(Place { path: path.to_owned(), origin: Origin::Flag("--x") })
}

#[expect(clippy::disallowed_methods, reason = "a test's file need not last")]
fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn our_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[test]
fn a_key_nobody_knows_is_refused_with_the_nearest_one() {
    check_faults(
        "[handlers.fetch_data]\ncommand = ['/bin/true']\ntimeuot = '10m'\n\
         [worker]\nslot = 3\n[jornal]\n[log]\ncolour = 'red'\n",
        &expect![[r#"
            error: unknown key `timeuot` in handlers.fetch_data (midwatch.toml, line 3)
              did you mean `timeout`?
            error: unknown key `slot` in worker (midwatch.toml, line 5)
              did you mean `slots`?
            error: unknown key `jornal` (midwatch.toml, line 6)
              did you mean `journal`?
            error: unknown key `colour` in log (midwatch.toml, line 8)
              known here: level, format, dir, rotate, max_size, keep, compress
        "#]],
    );
}

#[test]
fn limits_out_of_range_are_named_with_their_lines() {
    check_faults(
        "[worker]\nmemory_max = '1MiB'\n[handlers.a]\ncommand = ['/bin/true']\nuser = ''\n\
         group = 7\numask = '0o27'\nmemory = '1MiB'\ncpu_time = '20ms'\nopen_files = 3\n\
         processes = 0\nnice = 20\n[handlers.b]\ncommand = ['/bin/true']\numask = 27\n\
         nice = 'low'\n",
        &expect![[r#"
            error: `worker.memory_max` must be from 32MiB to 1024TiB, not 1MiB (midwatch.toml, line 2)
            error: `handlers.a.user` must not be empty (midwatch.toml, line 5)
            error: `handlers.a.group` must be text, not a number (midwatch.toml, line 6)
            error: `handlers.a.umask` must be octal digits such as "027" (midwatch.toml, line 7)
            error: `handlers.a.memory` must be from 4MiB to 1024TiB, not 1MiB (midwatch.toml, line 8)
            error: `handlers.a.cpu_time` must be from 1s to 3650d, not 20ms (midwatch.toml, line 9)
            error: `handlers.a.open_files` must be from 16 to 1073741824, not 3 (midwatch.toml, line 10)
            error: `handlers.a.processes` must be from 1 to 4194304, not 0 (midwatch.toml, line 11)
            error: `handlers.a.nice` must be a whole number from -20 to 19 (midwatch.toml, line 12)
            error: `handlers.b.umask` must be octal digits such as "027" (midwatch.toml, line 15)
            error: `handlers.b.nice` must be a whole number from -20 to 19 (midwatch.toml, line 16)
        "#]],
    );
}

#[test]
fn a_tcp_address_needs_tokens_and_hosts_are_bare_names() {
    check_faults(
        "[http]\nlisten = 'localhost:8474'\nhosts = ['watch.example', 'http://x']\n\
         token_file = 'tokens'\nopen_metrics = 'yes'\n",
        &expect![[r#"
            error: `http.listen` must be an IP address and a port, such as 127.0.0.1:8474, not `localhost:8474` (midwatch.toml, line 2)
            error: `http.hosts`, entry 2 must name hosts, such as watch.example, without scheme and port, not `http://x` (midwatch.toml, line 3)
            error: `http.token_file` must be an absolute path, not `tokens` (midwatch.toml, line 4)
            error: `http.open_metrics` must be true or false, not text (midwatch.toml, line 5)
        "#]],
    );
    check_faults(
        "[http]\nlisten = '[::1]:8474'\n",
        &expect![[r#"
        error: `http.listen` needs `http.token_file`: TCP cannot tell who calls (midwatch.toml, line 2)
          name a file that only its owner can read, with a line such as: read TOKEN
    "#]],
    );
    check_faults(
        "[http]\nlisten = '127.0.0.1:0'\ntoken_file = '/t'\n",
        &expect![[r#"
        error: `http.listen` must be an IP address and a port, such as 127.0.0.1:8474, not `127.0.0.1:0` (midwatch.toml, line 2)
    "#]],
    );
    let good = "[http]\nlisten = '[::1]:8474'\ntoken_file = '/t'\nhosts = ['Watch.Example']\n";
    let read = sections::read_text(Path::new("midwatch.toml"), good).unwrap().http;
    assert_eq!(read.listen.unwrap().to_string(), "[::1]:8474");
    assert_eq!(read.hosts, ["watch.example"]);
}

#[test]
fn wrong_types_and_values_out_of_range_are_named_with_their_lines() {
    check_faults(
        "data_dir = 'here'\n[journal]\nfsync = 'sometimes'\nsegment_size = '1KiB'\nreserve = 7\n\
         on_suspicious_tail = 'ignore'\n[worker]\nslots = 0\nprocesses = '2'\nheartbeat = '5x'\n\
         [retry]\nmax_retry = -1\nbase = 30\nintervals = []\n[log]\nlevel = 'loud'\n\
         format = true\n[http]\nsocket_group = ''\n[retention]\nfinished = '0s'\n\
         max_finished = -1\nmax_state = '1MiB'\narchive = 'here'\nkeep = '1d'\n",
        &expect![[r#"
            error: `data_dir` must be an absolute path, not `here` (midwatch.toml, line 1)
            error: `journal.fsync` must be always, interval:200ms (any duration) or never, not `sometimes` (midwatch.toml, line 3)
            error: `journal.segment_size` must be from 64KiB to 64MiB, not 1KiB (midwatch.toml, line 4)
            error: `journal.reserve` must be a size such as "4MiB", not a number (midwatch.toml, line 5)
            error: `journal.on_suspicious_tail` must be one of quarantine, halt, not `ignore` (midwatch.toml, line 6)
            error: `worker.slots` must be from 1 to 1024, not 0 (midwatch.toml, line 8)
            error: `worker.processes` must be a whole number from 0 to 256, not text (midwatch.toml, line 9)
            error: `worker.heartbeat`: `5x` is not a duration: the units are d, h, m, s and ms; write it like 250ms, 30s, 5m, 1h30m or 2d (midwatch.toml, line 10)
            error: `retry.max_retry` must be from 0 to 1000000, not -1 (midwatch.toml, line 12)
            error: `retry.base` must be a duration such as "30s", not a number (midwatch.toml, line 13)
            error: `retry.intervals` must name at least one wait (midwatch.toml, line 14)
            error: `log.level` must be one of error, warn, info, debug, trace, not `loud` (midwatch.toml, line 16)
            error: `log.format` must be one of text, json, not true or false (midwatch.toml, line 17)
            error: `http.socket_group` must not be empty (midwatch.toml, line 19)
            error: `retention.finished` must be from 1s to 3650d, not 0s (midwatch.toml, line 21)
            error: `retention.max_finished` must be from 0 to 10000000, not -1 (midwatch.toml, line 22)
            error: `retention.max_state` must be from 4MiB to 1TiB, not 1MiB (midwatch.toml, line 23)
            error: `retention.archive` must be an absolute path, not `here` (midwatch.toml, line 24)
            error: unknown key `keep` in retention (midwatch.toml, line 25)
              known here: finished, max_finished, keys, logs, archive, max_state
        "#]],
    );
    check_faults(
        "[journal]\nfsync = 'interval:5m'\n",
        &expect![[r#"
        error: `journal.fsync` must have an interval from 1ms to 1m, not 5m (midwatch.toml, line 2)
    "#]],
    );
    check_faults(
        "[retry]\nintervals = ['30s', '1x']\n",
        &expect![[r#"
        error: `retry.intervals`, entry 2: `1x` is not a duration: the units are d, h, m, s and ms; write it like 250ms, 30s, 5m, 1h30m or 2d (midwatch.toml, line 2)
    "#]],
    );
    check_faults(
        "worker = 3\n[handlers]\na = 1\n",
        &expect![[r#"
        error: `worker` must be a table, not a number (midwatch.toml, line 1)
        error: `handlers.a` must be a table, not a number (midwatch.toml, line 3)
    "#]],
    );
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    check_faults(
        "[journal]\nsegment_size = '8MiB'\n",
        &expect![[r#"
            error: `journal.reserve` (4MiB) must be at least one segment (8MiB) (midwatch.toml, line 2)
              set both: the reserve is room for the ends of running tasks on a full disk
        "#]],
    );
    check_faults(
        "[worker]\nheartbeat = '10m'\n",
        &expect![[r#"
        error: `worker.suspect_after` (1m30s) must be longer than `worker.heartbeat` (10m) (midwatch.toml, line 2)
    "#]],
    );
    check_faults(
        "[worker]\nsuspect_after = '6m'\noffline_after = '6m'\n",
        &expect![[r#"
        error: `worker.offline_after` (6m) must be longer than `worker.suspect_after` (6m) (midwatch.toml, line 3)
    "#]],
    );
    check_faults(
        "[retry]\nbase = '2h'\n",
        &expect![[r#"
        error: `retry.cap` (1h) must not be shorter than `retry.base` (2h) (midwatch.toml, line 2)
    "#]],
    );
}

#[test]
fn handlers_are_checked_key_by_key() {
    check_faults(
        "[handlers.exec]\ncommand = ['/bin/true']\n[handlers.\"a b\"]\ncommand = ['x']\n\
         [handlers.shell]\ncommand = 'echo hello'\n[handlers.none]\ntimeout = '1m'\n\
         [handlers.empty]\ncommand = []\n[handlers.relative]\ncommand = ['./run.sh']\n\
         [handlers.mixed]\ncommand = ['x', 1]\ncwd = 'tmp'\nenv = { MIDWATCH_KEY = 'x', N = 1 }\n\
         env_pass = ['A=B']\nfatal_exit_codes = [0, 256]\n\
         [handlers.both]\ncommand = ['x']\nfatal_exit_codes = [3]\nretryable_exit_codes = [3]\n",
        &expect![[r#"
            error: a handler may not be called `exec` (midwatch.toml, line 1)
              that name is taken by `midwatch submit --exec`
            error: `a b` cannot be the name of a handler (midwatch.toml, line 3)
              at most 64 letters a-z, digits, `_`, `-` and `.`, a letter or digit first
            error: `handlers.shell.command` must be a list: the program, then each argument on its own; for a shell write ["/bin/sh", "-c", "…"] (midwatch.toml, line 6)
            error: `handlers.none` has no `command` (midwatch.toml, line 7)
              name its program and arguments: command = ["/usr/bin/true"]
            error: `handlers.empty.command` must begin with a program (midwatch.toml, line 10)
            error: `handlers.relative.command` must begin with an absolute path or a name that PATH finds, not `./run.sh` (midwatch.toml, line 12)
            error: `handlers.mixed.command`, entry 2 must be text, not a number (put it between quotes) (midwatch.toml, line 14)
            error: `handlers.mixed.cwd` must be an absolute path, not `tmp` (midwatch.toml, line 15)
            error: `handlers.mixed.env.MIDWATCH_KEY` must not begin with MIDWATCH_: those say which task it is (midwatch.toml, line 16)
            error: `handlers.mixed.env.N` must be text, not a number (put it between quotes) (midwatch.toml, line 16)
            error: `handlers.mixed.env_pass`, entry 1 must be the name of a variable (midwatch.toml, line 17)
            error: `handlers.mixed.fatal_exit_codes`, entry 1 must be from 1 to 255, not 0 (midwatch.toml, line 18)
            error: exit status 3 is both in `handlers.both.fatal_exit_codes` and in `handlers.both.retryable_exit_codes` (midwatch.toml, line 22)
        "#]],
    );
}

#[test]
fn bounds_of_a_type_are_numbers_within_theirs() {
    check_faults(
        "[handlers.a]\ncommand = ['x']\nmax_running = 0\nrate = '10/d'\n\
         [handlers.b]\ncommand = ['x']\nmax_running = 100001\nrate = 10\n",
        &expect![[r#"
            error: `handlers.a.max_running` must be from 1 to 100000, not 0 (midwatch.toml, line 3)
            error: `handlers.a.rate`: a rate is a number from 1 to 10000 and /s, /m or /h, such as 10/m (midwatch.toml, line 4)
            error: `handlers.b.max_running` must be from 1 to 100000, not 100001 (midwatch.toml, line 7)
            error: `handlers.b.rate` must be text, not a number (midwatch.toml, line 8)
        "#]],
    );
}

#[test]
fn a_file_that_is_not_toml_is_refused_with_the_line() {
    check_faults(
        "[worker]\nslots = \n",
        &expect![[r#"
            error: this is not TOML: string values must be quoted, expected literal string (midwatch.toml, line 2)
        "#]],
    );
    check_faults(
        "[worker]\nslots = 1\nslots = 2\n",
        &expect![[r#"
            error: this is not TOML: duplicate key (midwatch.toml, line 3)
        "#]],
    );
    check_faults(
        "[handlers.a]\ncommand = ['x'\n",
        &expect![[r#"
            error: this is not TOML: unclosed array, expected `]` (midwatch.toml, line 2)
        "#]],
    );
}

const FULL: &str = r#"
data_dir = "/srv/midwatch"
socket = "/run/m.sock"
[journal]
fsync = "interval:200ms"
on_suspicious_tail = "halt"
segment_size = "1MiB"
snapshot_after = "2MiB"
reserve = "1MiB"
[worker]
processes = 3
slots = 4
heartbeat = "1s"
suspect_after = "3s"
offline_after = "10s"
memory_max = "256MiB"
[retry]
max_retry = 7
intervals = ["30s", "1m", "5m"]
max_lost = 2
[log]
level = "debug"
format = "json"
dir = "/var/log/midwatch"
rotate = "daily"
max_size = "1MiB"
keep = 3
compress = true
[http]
socket_group = "midwatch"
operate_group = "ops"
listen = "127.0.0.1:8474"
token_file = "/etc/midwatch/tokens"
hosts = ["watch.example"]
open_metrics = true
[handlers.fetch_data]
command = ["/usr/local/bin/fetch", "--batch", "1000"]
cwd = "/srv"
env = { LANG = "C", "a-b" = "x" }
env_pass = ["TZ"]
timeout = "10m"
cancel_grace = "1s"
kill_grace = "2s"
log_max = "1MiB"
retry = { max_retry = 3, base = "10s" }
retryable_exit_codes = [64]
user = "ada"
group = "ops"
umask = "0027"
memory = "256MiB"
cpu_time = "5m"
open_files = 256
processes = 32
nice = -5
[handlers."report.daily"]
command = ["report"]
max_running = 2
rate = "10/m"
[inbox]
path = "/srv/inbox"
rescan = "1m"
settle = "5s"
[inbox.types]
images = "fetch_data"
"day.books" = "report.daily"
[hooks.deploy]
type = "fetch_data"
secret_file = "/srv/secret"
key_header = "X-Delivery-Id"
rate = "5/s"
max_body = "64KiB"
priority = -1
[hooks."b.c"]
type = "report.daily"
secret_file = "/srv/secret2"
[retention]
finished = "2d"
max_finished = 50
keys = "3h"
logs = "2MiB"
archive = "/srv/ended.ndjson"
max_state = "16MiB"
[dispatch]
promote_after = "5m"
reserve = [{ priority_max = 10, slots = 2 }, { priority_max = -1, slots = 1 }]
"#;

/// Every value with its origin, one a line.
fn shown(config: &Config, dir: &Path) -> String {
    let lines = config.effective().into_iter().map(|Effective { key, value, origin }| {
        let value = value.map_or_else(String::new, |value| value.to_string());
        let origin = origin.to_string().replace(dir.to_str().unwrap(), "DIR");
        format!("{key} = {value}  # {origin}\n")
    });
    lines.collect()
}

#[test]
#[expect(clippy::too_many_lines, reason = "there are many keys")]
fn every_key_of_a_full_file_arrives() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("full.toml");
    write(&file, FULL);
    let named = Named { config: flag(&file), ..Named::default() };
    let mut config = Config::load(&named, &around(dir.path(), our_uid())).unwrap();
    config.override_workers(Some(0), None);
    expect![[r#"
        data_dir = "/srv/midwatch"  # DIR/full.toml:2
        socket = "/run/m.sock"  # DIR/full.toml:3
        journal.fsync = "interval:200ms"  # DIR/full.toml:5
        journal.on_suspicious_tail = "halt"  # DIR/full.toml:6
        journal.segment_size = "1MiB"  # DIR/full.toml:7
        journal.snapshot_after = "2MiB"  # DIR/full.toml:8
        journal.reserve = "1MiB"  # DIR/full.toml:9
        worker.processes = 0  # flag --workers
        worker.slots = 4  # DIR/full.toml:12
        worker.heartbeat = "1s"  # DIR/full.toml:13
        worker.suspect_after = "3s"  # DIR/full.toml:14
        worker.offline_after = "10s"  # DIR/full.toml:15
        worker.memory_max = "256MiB"  # DIR/full.toml:16
        retry.max_retry = 7  # DIR/full.toml:18
        retry.base = "30s"  # default
        retry.cap = "1h"  # default
        retry.intervals = ["30s", "1m", "5m"]  # DIR/full.toml:19
        retry.max_lost = 2  # DIR/full.toml:20
        retention.finished = "2d"  # DIR/full.toml:77
        retention.max_finished = 50  # DIR/full.toml:78
        retention.keys = "3h"  # DIR/full.toml:79
        retention.logs = "2MiB"  # DIR/full.toml:80
        retention.archive = "/srv/ended.ndjson"  # DIR/full.toml:81
        retention.max_state = "16MiB"  # DIR/full.toml:82
        dispatch.promote_after = "5m"  # DIR/full.toml:84
        dispatch.reserve = [{ priority_max = 10, slots = 2 }, { priority_max = -1, slots = 1 }]  # DIR/full.toml:85
        log.level = "debug"  # DIR/full.toml:22
        log.format = "json"  # DIR/full.toml:23
        log.dir = "/var/log/midwatch"  # DIR/full.toml:24
        log.rotate = "daily"  # DIR/full.toml:25
        log.max_size = "1MiB"  # DIR/full.toml:26
        log.keep = 3  # DIR/full.toml:27
        log.compress = true  # DIR/full.toml:28
        http.socket_group = "midwatch"  # DIR/full.toml:30
        http.operate_group = "ops"  # DIR/full.toml:31
        http.listen = "127.0.0.1:8474"  # DIR/full.toml:32
        http.token_file = "/etc/midwatch/tokens"  # DIR/full.toml:33
        http.hosts = ["watch.example"]  # DIR/full.toml:34
        http.open_metrics = true  # DIR/full.toml:35
        clock.wait_for_sync = false  # default
        handlers.fetch_data.command = ["/usr/local/bin/fetch", "--batch", "1000"]  # DIR/full.toml:37
        handlers.fetch_data.embedded = false  # default
        handlers.fetch_data.cwd = "/srv"  # DIR/full.toml:38
        handlers.fetch_data.env.LANG = "C"  # DIR/full.toml:39
        handlers.fetch_data.env."a-b" = "x"  # DIR/full.toml:39
        handlers.fetch_data.env_pass = ["TZ"]  # DIR/full.toml:40
        handlers.fetch_data.timeout = "10m"  # DIR/full.toml:41
        handlers.fetch_data.cancel_grace = "1s"  # DIR/full.toml:42
        handlers.fetch_data.kill_grace = "2s"  # DIR/full.toml:43
        handlers.fetch_data.log_max = "1MiB"  # DIR/full.toml:44
        handlers.fetch_data.retry.max_retry = 3  # DIR/full.toml:45
        handlers.fetch_data.retry.base = "10s"  # DIR/full.toml:45
        handlers.fetch_data.retry.cap = "1h"  # default
        handlers.fetch_data.retry.intervals =   # default
        handlers.fetch_data.retry.max_lost = 2  # DIR/full.toml:20
        handlers.fetch_data.max_running =   # default
        handlers.fetch_data.rate =   # default
        handlers.fetch_data.fatal_exit_codes = [65, 77, 78]  # default
        handlers.fetch_data.retryable_exit_codes = [64]  # DIR/full.toml:46
        handlers.fetch_data.schema =   # default
        handlers.fetch_data.user = "ada"  # DIR/full.toml:47
        handlers.fetch_data.group = "ops"  # DIR/full.toml:48
        handlers.fetch_data.umask = "027"  # DIR/full.toml:49
        handlers.fetch_data.memory = "256MiB"  # DIR/full.toml:50
        handlers.fetch_data.cpu_time = "5m"  # DIR/full.toml:51
        handlers.fetch_data.open_files = 256  # DIR/full.toml:52
        handlers.fetch_data.processes = 32  # DIR/full.toml:53
        handlers.fetch_data.nice = -5  # DIR/full.toml:54
        handlers.fetch_data.stall_after = "10m"  # default
        handlers.fetch_data.advice =   # default
        handlers.fetch_data.contact =   # default
        handlers."report.daily".command = ["report"]  # DIR/full.toml:56
        handlers."report.daily".embedded = false  # default
        handlers."report.daily".cwd =   # default
        handlers."report.daily".env_pass = []  # default
        handlers."report.daily".timeout =   # default
        handlers."report.daily".cancel_grace = "30s"  # default
        handlers."report.daily".kill_grace = "10s"  # default
        handlers."report.daily".log_max = "10MiB"  # default
        handlers."report.daily".retry.max_retry = 7  # DIR/full.toml:18
        handlers."report.daily".retry.base = "30s"  # default
        handlers."report.daily".retry.cap = "1h"  # default
        handlers."report.daily".retry.intervals = ["30s", "1m", "5m"]  # DIR/full.toml:19
        handlers."report.daily".retry.max_lost = 2  # DIR/full.toml:20
        handlers."report.daily".max_running = 2  # DIR/full.toml:57
        handlers."report.daily".rate = "10/m"  # DIR/full.toml:58
        handlers."report.daily".fatal_exit_codes = [64, 65, 77, 78]  # default
        handlers."report.daily".retryable_exit_codes = []  # default
        handlers."report.daily".schema =   # default
        handlers."report.daily".user =   # default
        handlers."report.daily".group =   # default
        handlers."report.daily".umask =   # default
        handlers."report.daily".memory =   # default
        handlers."report.daily".cpu_time =   # default
        handlers."report.daily".open_files =   # default
        handlers."report.daily".processes =   # default
        handlers."report.daily".nice =   # default
        handlers."report.daily".stall_after = "10m"  # default
        handlers."report.daily".advice =   # default
        handlers."report.daily".contact =   # default
        inbox.path = "/srv/inbox"  # DIR/full.toml:60
        inbox.rescan = "1m"  # DIR/full.toml:61
        inbox.settle = "5s"  # DIR/full.toml:62
        inbox.types."day.books" = "report.daily"  # DIR/full.toml:65
        inbox.types.images = "fetch_data"  # DIR/full.toml:64
        hooks."b.c".type = "report.daily"  # DIR/full.toml:74
        hooks."b.c".secret_file = "/srv/secret2"  # DIR/full.toml:75
        hooks."b.c".key_header =   # default
        hooks."b.c".rate = "600/m"  # default
        hooks."b.c".max_body = "1MiB"  # default
        hooks."b.c".priority =   # default
        hooks.deploy.type = "fetch_data"  # DIR/full.toml:67
        hooks.deploy.secret_file = "/srv/secret"  # DIR/full.toml:68
        hooks.deploy.key_header = "X-Delivery-Id"  # DIR/full.toml:69
        hooks.deploy.rate = "5/s"  # DIR/full.toml:70
        hooks.deploy.max_body = "64KiB"  # DIR/full.toml:71
        hooks.deploy.priority = -1  # DIR/full.toml:72
    "#]].assert_eq(&shown(&config, dir.path()));
}

#[test]
fn without_a_file_the_built_in_values_serve() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config::load(&Named::default(), &around(dir.path(), 1000)).unwrap();
    assert_eq!(config.file, None);
    assert_eq!(config.data_dir, dir.path().join("home/.local/state/midwatch"));
    assert_eq!(config.socket, dir.path().join("run/midwatch/midwatch.sock"));
    assert!(config.effective().iter().all(|value| value.origin == Origin::Default));
    let root = Config::load(&Named::default(), &around(dir.path(), 0)).unwrap();
    assert_eq!(root.data_dir, Path::new("/var/lib/midwatch"));
    assert_eq!(root.socket, Path::new("/run/midwatch/midwatch.sock"));
}

#[test]
fn the_socket_follows_a_data_directory_that_was_named_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let around = around(dir.path(), our_uid());
    let mut named = Named { data_dir: flag(Path::new("/srv/flag")), ..Named::default() };
    let socket = |named: &Named| Config::load(named, &around).unwrap().socket;
    assert_eq!(socket(&named), Path::new("/srv/flag/midwatch.sock"));
    write(&around.system_config, "data_dir = '/srv/file'\n");
    assert_eq!(socket(&named), Path::new("/srv/flag/midwatch.sock"));
    assert_eq!(socket(&Named::default()), Path::new("/srv/file/midwatch.sock"));
    write(&around.system_config, "data_dir = '/srv/file'\nsocket = '/srv/file.sock'\n");
    assert_eq!(socket(&named), Path::new("/srv/file.sock"));
    named.socket = flag(Path::new("/srv/flag.sock"));
    assert_eq!(socket(&named), Path::new("/srv/flag.sock"));
    assert_eq!(Config::find_socket(&named, &around).unwrap().0, Path::new("/srv/flag.sock"));
    assert_eq!(Config::find_data_dir(&named, &around).unwrap(), Path::new("/srv/flag"));
    let unnamed = Named::default();
    assert_eq!(Config::find_data_dir(&unnamed, &around).unwrap(), Path::new("/srv/file"));
}

#[test]
fn the_users_own_file_comes_before_the_hosts_and_a_named_one_before_both() {
    let dir = tempfile::tempdir().unwrap();
    let mut around = around(dir.path(), our_uid());
    let slots = |named: &Named, around: &Surroundings| Config::load(named, around).unwrap();
    write(&around.system_config, "[worker]\nslots = 3\n");
    assert_eq!(slots(&Named::default(), &around).worker.slots, 3);
    write(&dir.path().join("home/.config/midwatch/midwatch.toml"), "[worker]\nslots = 4\n");
    assert_eq!(slots(&Named::default(), &around).worker.slots, 4);
    around.config_home = Some(dir.path().join("xdg"));
    assert_eq!(slots(&Named::default(), &around).worker.slots, 3);
    write(&dir.path().join("xdg/midwatch/midwatch.toml"), "[worker]\nslots = 5\n");
    assert_eq!(slots(&Named::default(), &around).worker.slots, 5);
    write(&dir.path().join("own.toml"), "[worker]\nslots = 6\n");
    let named = Named { config: flag(&dir.path().join("own.toml")), ..Named::default() };
    assert_eq!(slots(&named, &around).worker.slots, 6);
}

#[test]
fn a_file_that_others_may_write_or_own_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("open.toml");
    write(&file, "");
    let named = Named { config: flag(&file), ..Named::default() };
    let said = |uid| {
        let error = Config::load(&named, &around(dir.path(), uid)).unwrap_err();
        let fault = error.faults.first().unwrap();
        let help = fault.help().map(|help| format!("\n  {help}")).unwrap_or_default();
        format!("{fault}{help}\n").replace(dir.path().to_str().unwrap(), "DIR")
    };
    fs::set_permissions(&file, fs::Permissions::from_mode(0o620)).unwrap();
    expect![[r#"
        others than its owner may write to the config DIR/open.toml (mode 0620)
          chmod go-w DIR/open.toml
    "#]]
    .assert_eq(&said(our_uid()));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o602)).unwrap();
    assert!(said(our_uid()).contains("mode 0602"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    if our_uid() == 0 {
        std::os::unix::fs::chown(&file, Some(12345), None).unwrap();
        assert!(said(0).contains("belongs to user 12345"));
    } else {
        assert!(said(our_uid() + 1).contains("belongs to user"));
    }
    fs::remove_file(&file).unwrap();
    expect![[r#"
        cannot read the config DIR/open.toml: no such file
  "#]]
    .assert_eq(&said(our_uid()));
    fs::create_dir(&file).unwrap();
    expect![[r#"
        the config DIR/open.toml is not a file
  "#]]
    .assert_eq(&said(our_uid()));
}

#[test]
fn a_socket_path_too_long_for_a_socket_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = |length: usize| format!("/{}", "s".repeat(length - 1));
    let socket = |length: usize| {
        let named = Named { socket: flag(Path::new(&path(length))), ..Named::default() };
        Config::load(&named, &around(dir.path(), our_uid()))
    };
    assert!(socket(107).is_ok());
    let said = socket(108).unwrap_err().to_string();
    assert!(said.contains("108 bytes") && said.ends_with(&path(108)), "{said}");
}

#[test]
fn a_handler_that_names_a_base_is_not_bound_to_the_common_list() {
    let text = "[retry]\nintervals = ['1s']\n[handlers.a]\ncommand = ['x']\nretry = {base = '2s'}\n\
                [handlers.b]\ncommand = ['x']\nretry = {max_retry = 1}\n";
    let config = sections::read_text(Path::new("f"), text).unwrap();
    assert_eq!(config.handlers["a"].retry.intervals, None);
    assert_eq!(config.handlers["b"].retry.intervals, Some(vec![Millis(1000)]));
    assert_eq!(config.handlers["b"].retry.max_retry, 1);
}

#[test]
fn an_embedded_handler_has_no_command_and_nothing_that_belongs_to_one() {
    let text = "[handlers.a]\nembedded = true\ntimeout = '1m'\nretry = {max_retry = 1}\n";
    let config = sections::read_text(Path::new("f"), text).unwrap();
    assert!(config.handlers["a"].embedded && config.handlers["a"].command.is_empty());
    check_faults(
        "[handlers.a]\nembedded = true\ncommand = ['x']\n\
         [handlers.b]\nembedded = 'yes'\ncommand = ['x']\n\
         [handlers.c]\nembedded = false\n[handlers.d]\nembedded = true\nlog_max = '1MiB'\n",
        &expect![[r#"
            error: `handlers.a.command` means nothing beside `embedded` (midwatch.toml, line 3)
              an embedded handler is code of a program of yours, not a command
            error: `handlers.b.embedded` must be true or false, not text (midwatch.toml, line 5)
            error: `handlers.c` has no `command` (midwatch.toml, line 7)
              name its program and arguments: command = ["/usr/bin/true"]
            error: `handlers.d.log_max` means nothing beside `embedded` (midwatch.toml, line 11)
              an embedded handler is code of a program of yours, not a command
        "#]],
    );
}

#[test]
fn triggers_are_checked_key_by_key() {
    check_faults(
        "[handlers.fetch]\ncommand = ['x']\n[inbox]\npath = 'here'\nrescan = '0s'\nsettle = 1\n\
         [inbox.types]\na = 'fetch'\nb = 'fetsh'\nc = 'exec'\nrejected = 'fetch'\n\
         '.d' = 'fetch'\n\
         [hooks.a]\n[hooks.'a/b']\ntype = 'fetch'\n\
         [hooks.b]\ntype = 'fetch'\nsecret_file = 's'\nkey_header = 'a b'\nrate = '0/m'\n\
         max_body = '2MiB'\npriority = 'high'\nsecret = 'x'\n",
        &expect![[r#"
            error: `inbox.path` must be an absolute path, not `here` (midwatch.toml, line 4)
            error: `inbox.rescan` must be from 1s to 1d, not 0s (midwatch.toml, line 5)
            error: `inbox.settle` must be a duration such as "30s", not a number (midwatch.toml, line 6)
            error: `inbox.types.b`: there is no [handlers.fetsh]; did you mean `fetch`? (midwatch.toml, line 9)
            error: `inbox.types.c`: there is no [handlers.exec] (midwatch.toml, line 10)
            error: a directory of the inbox may not be called `rejected` (midwatch.toml, line 11)
              that is where files are put that no task could be made of
            error: `.d` cannot be the name of a directory of the inbox (midwatch.toml, line 12)
              at most 64 letters a-z, digits, `_`, `-` and `.`, a letter or digit first
            error: `hooks.a` has no `type` (midwatch.toml, line 13)
              name the type of the tasks that it makes: type = "deploy"
            error: `hooks.a` has no `secret_file` (midwatch.toml, line 13)
              name a file with the secret: secret_file = "/etc/midwatch/secret"
            error: `a/b` cannot be the name of a hook (midwatch.toml, line 14)
              at most 40 letters a-z, digits, `_`, `-` and `.`, a letter or digit first
            error: `hooks.b.secret_file` must be an absolute path, not `s` (midwatch.toml, line 18)
            error: `hooks.b.key_header` must be the name of a header: letters, digits, `-` and `_` (midwatch.toml, line 19)
            error: `hooks.b.rate`: a rate is a number from 1 to 10000 and /s, /m or /h, such as 10/m (midwatch.toml, line 20)
            error: `hooks.b.max_body` must be from 1B to 1MiB, not 2MiB (midwatch.toml, line 21)
            error: `hooks.b.priority` must be a whole number from -2147483648 to 2147483647 (midwatch.toml, line 22)
            error: unknown key `secret` in hooks.b (midwatch.toml, line 23)
              known here: type, secret_file, key_header, rate, max_body, priority
        "#]],
    );
}

#[test]
fn an_inbox_lies_in_the_data_directory_unless_it_is_named_and_never_among_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let file = dir.path().join("own.toml");
    let named = Named { config: flag(&file), ..Named::default() };
    let load = |path: &str| {
        write(&file, &format!("data_dir = '{}'\n[inbox]\n{path}", data.display()));
        Config::load(&named, &around(dir.path(), 0)).map(|config| config.inbox.unwrap().path)
    };
    assert_eq!(load("").unwrap(), data.join("inbox"));
    assert_eq!(load("path = '/srv/in'\n").unwrap(), Path::new("/srv/in"));
    let within = |name: &str| load(&format!("path = '{}'\n", data.join(name).display()));
    assert_eq!(within("inbox").unwrap(), data.join("inbox"));
    for own in ["journal", "", "inbox/deeper"] {
        let error = within(own).unwrap_err().to_string();
        assert!(error.contains("a place of midwatch's own"), "{own}: {error}");
    }
}

#[test]
fn an_archive_is_never_a_file_of_midwatchs_own() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let load = |archive: &Path| {
        let text = format!(
            "data_dir = '{}'\n[retention]\narchive = '{}'\n",
            data.display(),
            archive.display()
        );
        let file = dir.path().join("own.toml");
        write(&file, &text);
        let named = Named { config: flag(&file), ..Named::default() };
        Config::load(&named, &around(dir.path(), 0)).map(drop)
    };
    for own in ["floor", "store", "midwatch.lock", "journal/x", "snapshots/y", "logs/1/1.log"] {
        let error = load(&data.join(own)).unwrap_err().to_string();
        assert!(error.contains("a place of midwatch's own"), "{own}: {error}");
    }
    load(&data.join("archive/ended.ndjson")).unwrap();
    load(&dir.path().join("ended.ndjson")).unwrap();
}

const DOCUMENT: &str = include_str!("../../spec/config.md");

#[test]
fn the_document_names_every_key_with_its_default_and_what_a_change_needs() {
    let config = Config::load(&Named::default(), &around(Path::new("/nonexistent"), 0)).unwrap();
    let values = config.effective();
    for section in KEYS {
        for key in section.keys {
            let (plain, table) = (format!("`{}`", key.name), format!("`[{}", key.name));
            let named = DOCUMENT.contains(&plain) || DOCUMENT.contains(&table);
            assert!(named, "{} {}", section.path, key.name);
            let path = format!("{}.{}", section.path, key.name);
            let row = format!("| `{}` | ", key.name);
            let rows: Vec<_> = DOCUMENT.lines().filter(|line| line.starts_with(&row)).collect();
            let change = if key.restart { " | restart |" } else { " | at once |" };
            let rowless = rows.is_empty();
            let told = rowless || rows.iter().any(|row| row.ends_with(change));
            assert!(told, "{path} must say{change} of a change: {rows:?}");
            let Some(value) = values.iter().find(|value| value.key == path) else { continue };
            let default = match &value.value {
                Some(value) => format!(" | `{value}` | "),
                None => " | not set | ".to_owned(),
            };
            assert!(rows.iter().any(|row| row.contains(&default)), "{path}:{default}{rows:?}");
        }
    }
}

#[test]
fn the_example_of_the_document_is_a_good_config() {
    let example = DOCUMENT.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let config = sections::read_text(Path::new("example"), example).unwrap();
    assert_eq!(config.handlers.len(), 2);
}

// spec: DSP-014
#[test]
fn a_reserve_leaves_slots_to_all_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("midwatch.toml");
    let named = Named { config: flag(&file), ..Named::default() };
    let load = |text: &str| {
        write(&file, text);
        Config::load(&named, &around(dir.path(), our_uid())).map_err(|error| error.to_string())
    };
    let refused = |text: &str, why: &str| {
        let error = load(text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
        assert!(error.contains("dispatch.reserve"), "{text}: {error}");
    };
    let of = |worker: &str, reserve: &str| {
        format!("data_dir = '/srv/m'\n[worker]\n{worker}\n[dispatch]\nreserve = {reserve}\n")
    };
    let one = "[{ priority_max = -7, slots = 1 }]";
    let kept = load(&of("slots = 2", one)).unwrap().dispatch.reserve;
    assert_eq!((kept[0].priority_max, kept[0].slots), (-7, 1));
    refused(&of("slots = 1", one), "keeps 1 of 1 slots (`worker.processes` × `worker.slots`)");
    let two = "[{ priority_max = 1, slots = 4 }, { priority_max = 9, slots = 4 }]";
    refused(&of("slots = 4\nprocesses = 2", two), "keeps 8 of 8 slots");
    assert!(load(&of("slots = 5\nprocesses = 2", two)).is_ok());
    assert!(load(&of("processes = 0", two)).is_ok(), "other programs bring the slots");
    assert!(load(&of("", "[]")).is_ok());
    refused(&of("", "3"), "must be a list, not a number");
    refused(&of("", "[3]"), "entry 1 must be a table such as { priority_max = 10, slots = 1 }");
    refused(&of("", "[{ priority_max = 3 }]"), "must name both");
    refused(&of("", "[{ priority_max = 3, slots = 0 }]"), "`slots` must be from 1 to 1000000");
    refused(&of("", "[{ priority_max = 9999999999, slots = 1 }]"), "`priority_max` must be");
    refused(&of("", "[{ priority = 3, slots = 1 }]"), "has no key `priority`");
}
