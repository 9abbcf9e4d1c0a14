//! What the end of a handler means.

use super::Crew;
use crate::eventually::eventually;
use midwatch::kernel::status::Outcome;
use midwatch::process;

// spec: HND-030
#[test]
fn exit_statuses_and_words_decide_the_outcome() {
    let crew = Crew::new(1, &[("sh", "eval \"eval $(cat)\"")]);
    let cases: &[(&str, Outcome, Option<i32>, &str)] = &[
        ("exit 0", Outcome::Success, Some(0), ""),
        ("echo busy >&2; exit 75", Outcome::Retryable, Some(75), "exit status 75: busy"),
        ("exit 1", Outcome::Retryable, Some(1), "exit status 1"),
        (
            "echo a >&2; echo b >&2; echo >&2; exit 64",
            Outcome::Fatal,
            Some(64),
            "exit status 64: b",
        ),
        ("exit 9", Outcome::Fatal, Some(9), "exit status 9"),
        ("exit 77", Outcome::Retryable, Some(77), "exit status 77"),
        ("kill -9 $$", Outcome::Retryable, None, "killed by signal 9 (SIGKILL)"),
        (
            "echo '{\\\"op\\\":\\\"error\\\",\\\"message\\\":\\\"no such row\\\",\\\"retryable\\\":false}' >&3; exit 75",
            Outcome::Fatal,
            Some(75),
            "no such row",
        ),
        (
            "echo '{\\\"op\\\":\\\"error\\\",\\\"message\\\":\\\"later\\\"}' >&3; exit 64",
            Outcome::Retryable,
            Some(64),
            "later",
        ),
    ];
    for (script, outcome, code, error) in cases {
        // The payload is a JSON string; the inner eval takes its quotes off.
        let crew_script = format!("\"{script}\"");
        let end = crew.run("sh", &crew_script);
        assert_eq!(end.outcome, *outcome, "{script}: {end:?}");
        assert_eq!(end.exit_code, *code, "{script}");
        assert_eq!(end.error.as_deref().unwrap_or_default(), *error, "{script}");
    }
}

// spec: HND-012
#[test]
fn a_result_written_just_before_the_end_is_kept() {
    let crew = Crew::new(1, &[("r", r#"printf '{"op":"result","data":{"rows":7}}' >&3"#)]);
    for _ in 0..20 {
        let end = crew.run("r", "null");
        assert_eq!(end.outcome, Outcome::Success);
        assert_eq!(end.result.unwrap().get(), r#"{"rows":7}"#);
    }
}

// spec: HND-031
#[test]
fn a_missing_command_is_fatal_and_named() {
    let crew = Crew::new(1, &[]);
    let fence = crew.engine.lease("exec", r#"{"argv":["no-such-thing"]}"#);
    let end = crew.engine.end_of(fence);
    assert_eq!((end.outcome, end.started), (Outcome::Fatal, false));
    assert_eq!(end.error.unwrap(), "cannot run `no-such-thing`: command not found");
    assert_eq!(crew.log(fence), "midwatch: cannot run `no-such-thing`: command not found\n");
}

// spec: HND-011, HND-013
#[test]
fn a_malformed_deep_or_endless_line_is_refused_and_harms_nothing() {
    let script = r#"
        say() { cat >&3; read -r answer <&3; echo "$answer"; }
        echo 'not json' | say
        echo '{"op":"dance"}' | say
        echo '{"op":"checkpoint"}' | say
        printf '{"op":"checkpoint","id":"d","data":%s%s}\n' "$(printf '[%.0s' $(seq 101))" "$(printf ']%.0s' $(seq 101))" | say
        { head -c 1100000 /dev/zero | tr '\0' x; echo; } | say
        printf '{"op":"result","data":"%s"}\n' "$(head -c 70000 /dev/zero | tr '\0' x)" | say
        printf '\377\376\n' | say
        echo '{"op":"checkpoint","data":{"at":1},"id":"m1"}' | say
        echo '{"op":"result","data":"fine"}' | say
    "#;
    let crew = Crew::new(1, &[("chat", script)]);
    let fence = crew.engine.lease("chat", "null");
    let end = crew.engine.end_of(fence);
    let log = crew.log(fence);
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 9, "{log}");
    assert!(lines[..7].iter().all(|line| line.starts_with(r#"{"ok":false,"error":"#)), "{log}");
    assert!(lines[1].contains("no such op: `dance`"), "{log}");
    // Who waits for the answer with its mark finds it.
    let deep = r#"{"ok":false,"error":"nested deeper than 100","stop":null,"id":"d"}"#;
    assert_eq!(lines[3], deep);
    assert!(lines[4].contains("at most 1052672 bytes"), "{log}");
    assert!(lines[7].starts_with(r#"{"ok":true,"seq":"#), "{log}");
    assert!(lines[7].ends_with(r#""stop":null,"id":"m1"}"#), "{log}");
    assert_eq!(lines[8], r#"{"ok":true,"stop":null}"#);
    assert_eq!(end.result.unwrap().get(), "\"fine\"");
    assert_eq!(crew.engine.book().checkpoints, [(fence, r#"{"at":1}"#.to_owned())]);
}

// spec: HND-014
#[test]
fn a_handler_that_reads_no_answers_is_not_held_up() {
    let script = r#"i=0; while [ $i -lt 3000 ]; do echo '{"op":"progress","done":'$i'}' >&3; i=$((i+1)); done"#;
    let crew = Crew::new(1, &[("deaf", script)]);
    assert_eq!(crew.run("deaf", "null").outcome, Outcome::Success);
}

// spec: HND-005
#[test]
fn the_last_checkpoint_is_in_a_file_of_the_next_attempt() {
    let crew = Crew::new(1, &[("go", "cat $MIDWATCH_CHECKPOINT_FILE; echo; echo $TMPDIR")]);
    let fence = crew.engine.lease_with("go", "null", |lease| {
        lease.checkpoint = Some(serde_json::value::to_raw_value(&[1, 2]).unwrap());
    });
    crew.engine.end_of(fence);
    let tmp = process::tmp_dir(&crew.file("run"), fence);
    assert_eq!(crew.log(fence), format!("[1,2]\n{}\n", tmp.display()));
    eventually("its directory is gone", || (!tmp.exists()).then_some(()));
}

// spec: HND-032, PRC-030, PRC-032
#[test]
fn the_leader_decides_and_what_it_leaves_is_killed_and_named() {
    let script = "
        sleep 600 & echo $! > $DIR/group
        setsid sh -c 'echo $$ > $DIR/session; sleep 600; true' &
        (setsid sleep 600 >/dev/null 2>&1 3>&- & echo $! > $DIR/quiet)
        env -i setsid sh -c 'echo $$ > '$DIR'/bare; exec sleep 600' >/dev/null 2>&1 3>&- &
        while [ ! -s $DIR/session ] || [ ! -s $DIR/bare ]; do sleep 0.01; done
        exit 65";
    let crew = Crew::new(1, &[("tree", script)]);
    let fence = crew.engine.lease("tree", "null");
    let end = crew.engine.end_of(fence);
    assert_eq!((end.outcome, end.exit_code), (Outcome::Fatal, Some(65)));
    let log = crew.log(fence);
    for name in ["group", "session", "quiet", "bare"] {
        let pid = crew.wait_for_file(name);
        let named = format!("midwatch: killed leftover process {} (", pid.trim());
        assert!(log.contains(&named), "{name}: {log}");
        let now = process::of(pid.trim().parse().unwrap()).unwrap();
        assert!(now.is_none_or(|process| !process::is_alive(&process).unwrap()), "{name}");
    }
}
