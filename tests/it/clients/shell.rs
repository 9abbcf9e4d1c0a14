//! The handlers of `examples/handlers/`, as they stand there, with the config that stands beside
//! them: killed where the work is written and its checkpoint is not, and gone on with.

use super::is_here;
use crate::field::house::{self, CALM, House};
use midwatch::kernel::ids::TaskId;
use midwatch::kernel::status::Status;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/handlers");

/// A stand-in for `midwatch` in the handlers' PATH. It holds the checkpoint of the first attempt
/// that is numbered in `hold` for ever; all else goes to the real one.
const SHIM: &str = r#"#!/bin/sh
if [ "$1 $2 $MIDWATCH_ATTEMPT" = "task checkpoint 1" ]; then
    echo x >> "$DIR/asked"
    if [ "$(wc -l < "$DIR/asked")" -eq "$(cat "$DIR/hold")" ]; then
        echo "$PPID" > "$DIR/held"
        exec sleep 600
    fi
fi
exec REAL "$@"
"#;

/// A place with the examples' config, data and a daemon.
struct Shop {
    house: House,
    dir: tempfile::TempDir,
}

impl Shop {
    /// The checkpoint number `hold` of the first attempt never comes about.
    fn new(hold: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().to_str().unwrap();
        let bin = dir.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for made in ["incoming", "releases", "data", "site"] {
            fs::create_dir(dir.path().join(made)).unwrap();
        }
        let shim = bin.join("midwatch");
        fs::write(&shim, SHIM.replace("REAL", env!("CARGO_BIN_EXE_midwatch"))).unwrap();
        fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(dir.path().join("hold"), format!("{hold}\n")).unwrap();
        let config = fs::read_to_string(format!("{EXAMPLES}/midwatch.toml")).unwrap();
        let config = config.split_once("data_dir = \"/var/lib/midwatch\"\n").unwrap().1;
        let config = config
            .replace("/srv/midwatch/handlers", EXAMPLES)
            .replace("/srv/", &format!("{home}/"))
            .replace("base = \"30s\"", "base = \"50ms\"")
            .replace("intervals = [\"15m\"]", "intervals = [\"50ms\"]")
            .replace(
                "env = { PATH = \"",
                &format!("env = {{ DIR = \"{home}\", PATH = \"{home}/bin:"),
            );
        assert_eq!(config.matches(home).count(), 4 * 2 + 2, "{config}");
        Self { house: House::with(&config, CALM, &[]), dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Kills the handler that waits for the answer to its checkpoint.
    fn kill_the_one_that_is_held(&self) {
        let pid: u32 = self.house.until("a checkpoint is held", |_| {
            fs::read_to_string(self.path("held")).ok()?.strip_suffix('\n')?.parse().ok()
        });
        house::kill(pid);
    }

    fn until_success(&self, id: TaskId) -> serde_json::Value {
        let done = self.house.until_status(id, Status::Success);
        assert_eq!(self.house.history(id).attempts.len(), 2, "{}", self.house.account());
        let killed = self.read("held");
        assert!(!Path::new("/proc").join(killed.trim()).exists(), "{}", self.house.account());
        serde_json::from_str(done.result.expect("a result").get()).unwrap()
    }
}

/// Serves pages of two items each, every one under a cursor of its own.
fn serve_pages(pages: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.unwrap(), pages);
        }
    });
    format!("http://{address}/items")
}

fn answer(mut stream: TcpStream, pages: usize) {
    let mut first = String::new();
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    lines.read_line(&mut first).unwrap();
    let mut line = first.clone();
    while !line.trim().is_empty() {
        line.clear();
        if lines.read_line(&mut line).unwrap() == 0 {
            return;
        }
    }
    let cursor = first.split(' ').nth(1).unwrap().split_once("cursor=").unwrap().1;
    let page =
        if cursor.is_empty() { 1 } else { cursor.trim_start_matches("page-").parse().unwrap() };
    let next =
        if page < pages { format!("x-next-cursor: page-{}\r\n", page + 1) } else { String::new() };
    let body = format!("{page}.1\n{page}.2\n");
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: ";
    // Who was killed does not read it.
    drop(write!(stream, "{head}{}\r\n{next}\r\n{body}", body.len()));
}

#[test]
fn a_fetch_killed_between_page_and_checkpoint_has_every_page_once() {
    if !is_here("curl", &["--version"]) {
        return;
    }
    let shop = Shop::new(3);
    let _daemon = shop.house.daemon();
    let payload = json!({"url": serve_pages(5), "out": shop.path("items")});
    let id = shop.house.submit("fetch", &payload.to_string());
    shop.kill_the_one_that_is_held();
    let items = (1..=5).map(|page| format!("{page}.1\n{page}.2\n")).collect::<Vec<_>>().concat();
    assert_eq!(shop.until_success(id), json!({"pages": 5, "bytes": items.len()}));
    assert_eq!(shop.read("items"), items);
}

#[test]
fn a_big_file_is_gone_on_with_at_its_byte() {
    let shop = Shop::new(4);
    let _daemon = shop.house.daemon();
    let rows = (0..1050).map(|n| format!("name{n},{n}\n")).collect::<Vec<_>>().concat();
    fs::write(shop.path("in.csv"), &rows).unwrap();
    let payload = json!({"in": shop.path("in.csv"), "out": shop.path("out.csv"), "batch": 100});
    let id = shop.house.submit("convert", &payload.to_string());
    shop.kill_the_one_that_is_held();
    assert_eq!(shop.until_success(id), json!({"bytes": rows.len()}));
    assert_eq!(shop.read("out.csv"), rows.replace("name", "NAME"));
    // The second attempt began at the checkpoint: three batches were not its own.
    let progress = shop.house.task(id).checkpoint.unwrap();
    assert!(progress.get().contains(&format!("\"read\":{}", rows.len())), "{progress}");
}

#[test]
fn each_step_of_a_report_counts_once_wherever_it_is_cut() {
    for hold in 1..=3 {
        let shop = Shop::new(hold);
        let _daemon = shop.house.daemon();
        fs::write(shop.path("data/2026-01-31.csv"), "b,1\na,2\nb,3\n").unwrap();
        let payload =
            json!({"data": shop.path("data"), "site": shop.path("site"), "day": "2026-01-31"});
        let id = shop.house.submit("report", &payload.to_string());
        shop.kill_the_one_that_is_held();
        assert_eq!(shop.until_success(id), json!({"page": "2026-01-31.html"}));
        let page = "<h1>2026-01-31</h1><table>\n<tr><td>a<td>2\n<tr><td>b<td>4\n</table>\n";
        assert_eq!(shop.read("site/2026-01-31.html"), page);
        assert_eq!(shop.read("site/index"), "2026-01-31.html\n");
        let mut left: Vec<_> =
            fs::read_dir(shop.path("site")).unwrap().map(|it| it.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["2026-01-31.html", "index"]);
        // The step whose checkpoint was held is done twice, those before it once.
        let logs = (1..=2).map(|n| shop.house.data(&format!("logs/{id}/{n}.log")));
        let steps: String = logs.map(|log| fs::read_to_string(log).unwrap()).collect();
        let mut counts = BTreeMap::new();
        for step in steps.lines().filter(|line| !line.starts_with("midwatch: killed")) {
            *counts.entry(step.split(' ').next().unwrap().to_owned()).or_insert(0_u32) += 1;
        }
        let names = ["collect", "render", "publish"];
        let expected =
            (1..).zip(names).map(|(n, name)| (name.to_owned(), if n == hold { 2 } else { 1 }));
        assert_eq!(counts, expected.collect(), "{steps}");
    }
}

#[test]
fn a_report_waits_for_its_data() {
    let shop = Shop::new(99);
    let _daemon = shop.house.daemon();
    let payload =
        json!({"data": shop.path("data"), "site": shop.path("site"), "day": "2026-02-01"});
    let id = shop.house.submit("report", &payload.to_string());
    shop.house.until("it was tried", |house| (0 < house.task(id).retry_count).then_some(()));
    fs::write(shop.path("data/2026-02-01.csv"), "a,1\n").unwrap();
    shop.house.until_status(id, Status::Success);
}

#[test]
fn a_push_that_comes_twice_is_deployed_once_wherever_it_is_cut() {
    if !is_here("tar", &["--version"]) {
        return;
    }
    for hold in 1..=2 {
        let shop = Shop::new(hold);
        let _daemon = shop.house.daemon();
        fs::write(shop.path("index.html"), "new\n").unwrap();
        let archive = shop.path("incoming/shop-0a1b2c.tar");
        let mut tar = Command::new("tar");
        tar.arg("-cf").arg(archive).arg("-C").arg(shop.dir.path()).arg("index.html");
        assert!(tar.status().unwrap().success());
        let push = |body: &str| {
            let mut command = Command::new(format!("{EXAMPLES}/on-push.sh"));
            let path = std::env::var("PATH").unwrap();
            command.env("PATH", format!("{}:{path}", shop.path("bin").display()));
            command.env("DIR", shop.dir.path()).env("MIDWATCH_ATTEMPT", "0");
            command.env("MIDWATCH_CONFIG", shop.house.path("midwatch.toml"));
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            child.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
            child.wait_with_output().unwrap()
        };
        let body = r#"{"event": "push", "repository": "shop", "commit": "0a1b2c"}"#;
        let first = push(body);
        let id = String::from_utf8(first.stdout).unwrap();
        assert_eq!(push(body).stdout, id.as_bytes());
        assert_eq!(push("{}").status.code(), Some(65));
        shop.kill_the_one_that_is_held();
        let id = TaskId(id.trim().parse().unwrap());
        assert_eq!(shop.until_success(id), json!({"current": "shop/0a1b2c"}));
        assert_eq!(shop.read("releases/shop/current/index.html"), "new\n");
        assert_eq!(shop.read("releases/deployments"), format!("task {id}: shop 0a1b2c\n"));
        // What strangers send goes no further than to the record.
        let evil = shop.house.submit("deploy", r#"{"repository": "../..", "commit": "x"}"#);
        shop.house.until_status(evil, Status::Failed);
    }
}

#[test]
fn the_examples_are_plain_shell() {
    let mut scripts = 0;
    for entry in fs::read_dir(EXAMPLES).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "sh") {
            continue;
        }
        scripts += 1;
        assert!(fs::read_to_string(&path).unwrap().starts_with("#!/bin/sh\n"));
        assert_ne!(fs::metadata(&path).unwrap().permissions().mode() & 0o111, 0, "{path:?}");
        for shell in [&["sh"][..], &["dash"], &["bash", "--posix"], &["busybox", "sh"]] {
            if is_here(shell[0], if shell[0] == "busybox" { &["true"] } else { &["-c", "true"] }) {
                let read = Command::new(shell[0]).args(&shell[1..]).arg("-n").arg(&path).status();
                assert!(read.unwrap().success(), "{shell:?} {path:?}");
            }
        }
        if is_here("shellcheck", &["--version"]) {
            let checked = Command::new("shellcheck").arg(&path).output().unwrap();
            assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
        }
    }
    assert_eq!(scripts, 5);
}
