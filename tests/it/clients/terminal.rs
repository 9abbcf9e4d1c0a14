//! `midwatch top` on a real terminal: keys work, and the terminal is given back on every way out.

use super::is_here;
use crate::field::house::{CALM, House, until};
use midwatch::kernel::status::Status;
use std::io::Write;
use std::process::{Command, Stdio};

/// A terminal of that size on which `midwatch ARGS` runs, and what a person does there, a line an
/// order (`tests/terminal.py` has them); what was seen.
fn sit_down(house: &House, (columns, rows): (u16, u16), args: &[&str], orders: &str) -> String {
    let midwatch = house.command(args);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/terminal.py");
    let mut command = Command::new("python3");
    command.arg(script).args([columns.to_string(), rows.to_string()]);
    command.arg(midwatch.get_program()).args(midwatch.get_args());
    command.env("TERM", "xterm").env("TZ", "UTC").env_remove("NO_COLOR").env_remove("COLUMNS");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(orders.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

const AS_IT_WAS: &str = "exit 0, the terminal is as it was\n";

fn house() -> House {
    let hold = "echo the log of $MIDWATCH_TASK_ID; printf '\\033[2Jhostile\\n'; until_there go";
    House::new(CALM, &[("hold", hold, ""), ("fail", "echo it failed; exit 65", "")])
}

#[test]
fn keys_do_what_they_say_after_a_yes() {
    if !is_here("python3", &["-c", "import pty"]) {
        return;
    }
    let house = house();
    let mut daemon = house.daemon();
    let (hold, fail) = (house.submit("hold", "null"), house.submit("fail", "null"));
    until("one runs and one failed", || {
        let ended = house.task(fail).status == Status::Failed;
        (ended && house.task(hold).status == Status::Running).then_some(())
    });
    let orders = format!(
        "wait RUNNING\nwait hold\ntype l\nwait the log of {hold}\nwait \\u{{1b}}[2Jhostile\n\
         wait following\ntype q\ngone following\ntype \\r\nwait history {hold}\ntype q\n\
         gone history {hold}\ntype c\nwait cancel task {hold} hold for good?\ntype n\n\
         wait nothing was done\ntype cy\nwait cancel asked for\ntype \\trn\n\
         wait nothing was done\ntype /fail\\r\nwait only /fail\ntype r\nwait run task {fail} fail\n\
         type y\nwait runs {fail} again\ntype \\e\nsize 120 40\nwait TRY  SCHEDULE\nsize 30 9\n\
         wait too small\nsize 80 24\nwait RUNNING\nshow\ntype q\nend\n"
    );
    let seen = sit_down(&house, (80, 24), &["top"], &orders);
    assert!(seen.ends_with(AS_IT_WAS), "{seen}");
    assert!(seen.starts_with("midwatch "), "{seen}");
    until("it is cancelled", || (house.task(hold).status == Status::Cancelled).then_some(()));
    assert_eq!(house.task(fail).status, Status::Failed);
    daemon.terminate();
}

#[test]
fn the_terminal_is_given_back_on_every_way_out() {
    if !is_here("python3", &["-c", "import pty"]) {
        return;
    }
    let house = house();
    let mut daemon = house.daemon();
    for out in ["type \\x03", "signal TERM", "signal HUP", "signal INT", "type q"] {
        let seen = sit_down(&house, (80, 24), &["top"], &format!("wait RUNNING\n{out}\nend\n"));
        assert_eq!(seen, AS_IT_WAS, "{out}");
    }
    // Somebody looks at the shell in between.
    let orders = "wait RUNNING\ntype \\x1a\nstopped\nsignal CONT\nwait RUNNING\nsignal TSTP\n\
                  stopped\nsignal CONT\nwait RUNNING\ntype q\nend\n";
    assert_eq!(sit_down(&house, (80, 24), &["top"], orders), AS_IT_WAS);
    daemon.terminate();
}

#[test]
fn a_daemon_that_goes_away_is_told_and_found_again() {
    if !is_here("python3", &["-c", "import pty"]) {
        return;
    }
    let house = house();
    let mut daemon = house.daemon();
    let file = |name| house.path(name).display().to_string();
    let orders = format!(
        "wait RUNNING\ntouch {}\nwait NO ANSWER\nwait no answer since\ntouch {}\n\
         wait answers again\ngone NO ANSWER\ntype q\nend\n",
        file("looks"),
        file("alone")
    );
    std::thread::scope(|scope| {
        let seen = scope.spawn(|| sit_down(&house, (80, 24), &["top"], &orders));
        house.until_file("looks");
        daemon.terminate();
        house.until_file("alone");
        let mut daemon = house.daemon();
        assert_eq!(seen.join().unwrap(), AS_IT_WAS);
        daemon.terminate();
    });
}

#[test]
fn without_a_terminal_the_way_to_the_same_as_text_is_told() {
    let house = house();
    for (args, said) in
        [(&["top"][..], "needs a terminal on standard output"), (&["top", "--json"], "has no JSON")]
    {
        let output = house.run(args);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(said) && text.contains("midwatch status"), "{text}");
    }
}
