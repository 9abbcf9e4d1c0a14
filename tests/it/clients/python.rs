//! `clients/python/midwatch.py` against the real engine and worker.

use super::is_here;
use crate::field::house::{self, CALM, House};
use midwatch::api::TaskView;
use midwatch::kernel::ids::TaskId;
use midwatch::kernel::status::Status;
use std::fs;
use std::path::Path;
use std::process::Command;

const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/python");

fn python() -> bool {
    is_here("python3", &["-c", "import sys; sys.exit(sys.version_info < (3, 8))"])
}

/// A daemon whose handlers are Python scripts: each a type and its code.
fn daemon_of(scripts: &[(&str, &str)]) -> House {
    let run = |kind: &str| {
        format!("PYTHONDONTWRITEBYTECODE=1 PYTHONPATH='{MODULE}' exec python3 \"$DIR/{kind}.py\"")
    };
    let commands: Vec<_> =
        scripts.iter().map(|(kind, _)| ((*kind).to_owned(), run(kind))).collect();
    let handlers: Vec<_> =
        commands.iter().map(|(kind, command)| (kind.as_str(), command.as_str(), "")).collect();
    let house = House::new(CALM, &handlers);
    for (kind, script) in scripts {
        fs::write(house.path(&format!("{kind}.py")), format!("{PRELUDE}{script}")).unwrap();
    }
    house
}

/// What the scripts have in common: files by which a test steers them.
const PRELUDE: &str = "
import os, sys, time
from midwatch import Broken, MidwatchError, OutsideHandler, Refused, Stopped, Task
def path(name): return os.path.join(os.environ['DIR'], name)
def touch(name): open(path(name), 'w').close()
def until(name):
    while not os.path.exists(path(name)): time.sleep(0.01)
def write(name, text):
    with open(path(name), 'a') as file: file.write(text)
task = Task.from_env()
";

fn result(task: &TaskView) -> serde_json::Value {
    serde_json::from_str(task.result.as_ref().expect("a result").get()).unwrap()
}

fn error_of(house: &House, id: TaskId) -> String {
    house.history(id).attempts.last().and_then(|attempt| attempt.error.clone()).unwrap_or_default()
}

#[test]
fn a_python_handler_finds_the_facts_and_leaves_its_word() {
    if !python() {
        return;
    }
    let house = daemon_of(&[(
        "facts",
        "
assert task.payload == {'a': [1, 'ä']} == task.payload
assert (task.attempt, task.max_retry, task.type, task.key) == (1, 5, 'facts', None)
assert not task.has_checkpoint and task.checkpoint_data is None
assert not task.should_stop() and task.stop_reason is None
first = task.checkpoint({'n': 1})
assert task.checkpoint(['ä', None, 2.5]) > first
task.progress(1, 2, 'half \\udc80 ' + 'ä' * 400)
for wrong in (float('nan'), object()):
    try: task.checkpoint(wrong)
    except (ValueError, TypeError): pass
    else: raise AssertionError(wrong)
for big in ('x' * (1 << 20), 'ä' * 200000):
    try: task.checkpoint(big)
    except Refused: pass
    else: raise AssertionError(len(big))
deep = []
for _ in range(100): deep = [deep]
try: task.checkpoint(deep)
except Refused as refused: assert 'nested' in str(refused), refused
else: raise AssertionError('deep')
try: task.result('x' * 65537)
except Refused: pass
else: raise AssertionError('big result')
task.result({'fence': task.fence, 'id': task.id, 'due': task.scheduled_for})
",
    )]);
    let _daemon = house.daemon();
    let id = house.submit("facts", r#"{"a": [1, "ä"]}"#);
    let done = house.until_status(id, Status::Success);
    assert_eq!(result(&done)["id"], id.0);
    assert_eq!(result(&done)["fence"], house.until_start(id, 1).fence);
    assert_eq!(done.checkpoint.unwrap().get(), r#"["\u00e4",null,2.5]"#);
}

#[test]
fn a_batch_in_flight_runs_again_after_kill_9_and_no_other() {
    if !python() {
        return;
    }
    let house = daemon_of(&[(
        "work",
        "
for batch in task.batches(range(20), 6):
    write('done', ''.join(f'{task.attempt}:{n} ' for n in batch))
    if 12 in batch and task.attempt == 1:
        touch('busy')
        time.sleep(600)
task.result(task.checkpoint_data)
",
    )]);
    let _daemon = house.daemon();
    let id = house.submit("work", "null");
    house.until("the third batch is written", |house| house.path("busy").exists().then_some(()));
    house::kill(house.until_start(id, 1).pid);
    let done = house.until_status(id, Status::Success);
    assert_eq!(result(&done), serde_json::json!({"done": 12}));
    let first = (0..18).map(|n| format!("1:{n} ")).collect::<Vec<_>>().concat();
    let second = (12..20).map(|n| format!("2:{n} ")).collect::<Vec<_>>().concat();
    assert_eq!(fs::read_to_string(house.path("done")).unwrap(), first + &second);
    assert_eq!(done.checkpoint.unwrap().get(), r#"{"done":20}"#);
    house.check_no_overlap();
}

#[test]
fn batches_end_the_program_in_order_when_it_is_to_stop() {
    if !python() {
        return;
    }
    let house = daemon_of(&[(
        "work",
        "
try:
    for batch in task.batches((n for n in range(1000000)), 1):
        touch('up')
        time.sleep(0.01)
except Stopped as stopped:
    write('stopped', f'{stopped.reason} {task.stop_reason}\\n')
    raise
raise AssertionError('it came to an end')
",
    )]);
    let _daemon = house.daemon();
    let id = house.submit("work", "null");
    house.until("it works", |house| house.path("up").exists().then_some(()));
    house.act(id, "pause").unwrap();
    let paused = house.until_status(id, Status::Paused);
    assert!(paused.checkpoint.is_some());
    assert_eq!(house.until_file("stopped"), "pause pause\n");
    house.act(id, "resume").unwrap();
    house.until_start(id, 2);
    house.act(id, "cancel").unwrap();
    house.until_status(id, Status::Cancelled);
}

#[test]
fn failures_say_whether_to_try_again() {
    if !python() {
        return;
    }
    let house = daemon_of(&[
        ("fatal", "task.fail('no such thing', retryable=False)\n"),
        (
            "later",
            "
if task.attempt == 1: task.fail('not yet')
if task.attempt == 2: raise ValueError('nobody caught this')
",
        ),
        (
            "shape",
            "
if task.attempt == 1:
    task.checkpoint([1]); sys.exit(75)
list(task.batches([1], 1))
",
        ),
    ]);
    let _daemon = house.daemon();
    let fatal = house.submit("fatal", "null");
    house.until_status(fatal, Status::Failed);
    assert_eq!(error_of(&house, fatal), "no such thing");
    let later = house.submit("later", "null");
    house.until_status(later, Status::Success);
    let errors: Vec<_> = house.history(later).attempts.into_iter().map(|it| it.error).collect();
    let uncaught = "exit status 1: ValueError: nobody caught this";
    assert_eq!(errors, [Some("not yet".into()), Some(uncaught.into()), None]);
    let shape = house.submit("shape", "null");
    house.until("it failed twice", |house| (2 <= house.task(shape).retry_count).then_some(()));
    house.act(shape, "cancel").unwrap();
    let errors = house.history(shape).attempts.into_iter().filter_map(|it| it.error);
    let told = "midwatch.MidwatchError: the last checkpoint is not one of batches(): [1]";
    assert!(errors.clone().any(|error| error.contains(told)), "{:?}", errors.collect::<Vec<_>>());
}

// Threads, a child made by fork, the command `midwatch task` and lines by hand, all at once: each
// word gets its own answer.
#[test]
fn many_may_speak_for_one_task() {
    if !python() {
        return;
    }
    let midwatch = env!("CARGO_BIN_EXE_midwatch");
    let script = format!(
        "
import subprocess, threading
# By hand, with answers that nobody reads.
os.write(3, b'{{\"op\":\"poll\"}}\\n{{\"op\":\"what\"}}\\nnot even JSON\\n')
seen = []
def speak(): seen.extend(task.checkpoint(n) for n in range(10))
threads = [threading.Thread(target=speak) for _ in range(4)]
for thread in threads: thread.start()
child = os.fork()
if child == 0:
    for n in range(10): task.checkpoint(n)
    os._exit(0)
for _ in range(3):
    subprocess.run(['{midwatch}', 'task', 'checkpoint', '\"cli\"'], pass_fds=(3,), check=True)
for thread in threads: thread.join()
assert os.waitpid(child, 0)[1] == 0
assert len(seen) == len(set(seen)) == 40, seen
task.result(max(seen))
"
    );
    let house = daemon_of(&[("crowd", &script)]);
    let _daemon = house.daemon();
    let id = house.submit("crowd", "null");
    let done = house.until_status(id, Status::Success);
    assert!(0 < result(&done).as_u64().unwrap());
}

#[test]
fn checkpoints_wait_for_an_engine_that_is_away() {
    if !python() {
        return;
    }
    let house = daemon_of(&[(
        "work",
        "
task.checkpoint(1); touch('up'); until('go')
task.checkpoint(2)
task.result('both')
",
    )]);
    let engine = house.engine();
    let _worker = house.worker("w", 1);
    let id = house.submit("work", "null");
    house.until("it has begun", |house| house.path("up").exists().then_some(()));
    engine.kill();
    house.touch("go");
    let _engine = house.engine();
    let done = house.until_status(id, Status::Success);
    assert_eq!(done.checkpoint.unwrap().get(), "2");
    assert_eq!(house.starts().len(), 1);
}

/// Runs Python by hand, with the environment of a handler but for what `change` does to it.
fn by_hand(script: &str, change: impl FnOnce(&mut Command)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("python3");
    command.args(["-c", script]).env("PYTHONPATH", MODULE).env("PYTHONDONTWRITEBYTECODE", "1");
    for (name, value) in [
        ("TASK_ID", "1"),
        ("TASK_TYPE", "x"),
        ("ATTEMPT", "1"),
        ("MAX_RETRY", "5"),
        ("FENCE", "7"),
        ("SCHEDULED_FOR", "now"),
        ("CONTROL_FD", "77"),
    ] {
        command.env(format!("MIDWATCH_{name}"), value);
    }
    command.env("TMPDIR", dir.path()).stdin(std::process::Stdio::null());
    change(&mut command);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    String::from_utf8_lossy(&output.stdout).into_owned() + said.lines().last().unwrap_or_default()
}

#[test]
fn outside_a_handler_there_is_no_task_and_the_error_says_so() {
    if !python() {
        return;
    }
    let script = "from midwatch import Task; Task.from_env()";
    let said = by_hand(script, |command| {
        command.env_remove("MIDWATCH_TASK_ID");
    });
    assert!(said.starts_with("midwatch.OutsideHandler: there is no task here"), "{said}");
    let said = by_hand(script, |_| ());
    assert!(said.contains("descriptor 77: "), "{said}");
    let said = by_hand(script, |command| {
        command.env("MIDWATCH_CONTROL_FD", "0");
    });
    assert!(said.contains("descriptor 0: "), "{said}");
}

// A worker of another make, or a broken one: no answer makes the handler hang or believe.
#[test]
fn answers_that_are_none_are_errors() {
    if !python() {
        return;
    }
    let script = "
import os, socket, sys, threading
ours, theirs = socket.socketpair()
os.environ['MIDWATCH_CONTROL_FD'] = str(theirs.fileno())
from midwatch import MidwatchError, Task
task = Task.from_env()
ours.sendall(sys.argv[1].encode()); ours.shutdown(socket.SHUT_WR)
try: task.should_stop()
except MidwatchError as error: print(type(error).__name__, error)
";
    for (answer, expected) in [
        ("", "Broken the control channel is broken: the worker is gone"),
        (
            "{\"ok\":true,\"stop\":null}\n",
            "Broken the control channel is broken: the worker is gone",
        ),
        ("[]\n7\n", "Broken the control channel is broken: the worker is gone"),
        ("{\"ok\":tr", "Broken the control channel is broken: the worker is gone"),
        ("what?\n", "Broken the control channel is broken: Expecting value"),
    ] {
        let said = by_hand(script, |command| {
            command.arg(answer);
        });
        assert!(said.starts_with(expected), "{answer:?}: {said}");
    }
}

#[test]
fn the_module_is_typed() {
    if !is_here("mypy", &["--version"]) {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let mut command = Command::new("mypy");
    command.args(["--strict", "--cache-dir"]).arg(cache.path());
    let output = command.arg(Path::new(MODULE).join("midwatch.py")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
