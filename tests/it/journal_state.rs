//! `state` and `stats`: what the files tell of the past, and of themselves.

use super::journal_store::{Bench, edit};
use super::journal_tool::{check, compacted, image, on, tool};
use expect_test::expect;
use midwatch::kernel::ids::Millis;
use serde_json::Value;

fn document(bench: &Bench, arguments: &[&str]) -> Value {
    let (code, out, err) = on(bench, arguments);
    assert_eq!((code, err.as_str()), (0, ""));
    serde_json::from_str(&out).unwrap()
}

#[test]
fn the_state_at_the_end_is_the_engines() {
    let mut bench = Bench::new();
    bench.full_history();
    let state = document(&bench, &["state", "--json"]);
    assert_eq!(state["digest"], bench.digest().as_str());
    assert_eq!(state["seq"], bench.last_seq());
    assert_eq!(state["tasks"].as_array().unwrap().len(), 4);
}

#[test]
fn every_past_state_is_the_one_the_engine_had_then() {
    let mut bench = Bench::with_snapshots(6 << 10);
    let mut then = vec![(bench.last_seq(), bench.digest())];
    bench.full_history();
    for _ in 0..150 {
        bench.submit_many(20);
        then.push((bench.last_seq(), bench.digest()));
    }
    let (_, out, _) = on(&bench, &["state", "--at", "1"]);
    assert_eq!(out, "", "the first is long gone");
    let mut held = 0;
    for (seq, digest) in &then {
        let (code, out, err) = on(&bench, &["state", "--json", "--at", &seq.to_string()]);
        match code {
            0 => {
                let state: Value = serde_json::from_str(&out).unwrap();
                assert_eq!(
                    (state["seq"].as_u64(), &state["digest"]),
                    (Some(*seq), &Value::from(&**digest))
                );
                held += 1;
            }
            _ => assert!(code == 3 && err.contains("is not held any more"), "{err}"),
        }
    }
    assert!((5..then.len()).contains(&held), "{held} of {} states are held", then.len());
}

#[test]
fn a_state_of_the_past_is_shown_to_people() {
    let mut bench = Bench::new();
    bench.full_history();
    bench.close();
    check(
        &bench,
        &["state", "--at", "21"],
        &expect![[r#"
        exit 0
        state at sequence 21, 2026-03-14 02:10:00
          tasks      4 tasks: 1 RUNNING, 1 SUCCESS, 1 DEAD, 1 CANCELLED
          workers    1 worker
                     2 w1, alive, pid 700, 1 of 8 slots
          digest     SHA-256

          ID  STATUS     TYPE   PRI  TRY  NEXT / SINCE  NOTE
           4  RUNNING    fetch  100  1/6  since 0 s
           3  CANCELLED  fetch  100  0/6  just now
           2  SUCCESS    fetch   -3  1/2  just now      again 1
           1  DEAD       fetch   -3  2/2  just now      HTTP 502
    "#]],
    );
    check(
        &bench,
        &["state", "--at", "21", "--limit", "1"],
        &expect![[r#"
        exit 0
        state at sequence 21, 2026-03-14 02:10:00
          tasks      4 tasks: 1 RUNNING, 1 SUCCESS, 1 DEAD, 1 CANCELLED
          workers    1 worker
                     2 w1, alive, pid 700, 1 of 8 slots
          digest     SHA-256

          ID  STATUS   TYPE   PRI  TRY  NEXT / SINCE  NOTE
           4  RUNNING  fetch  100  1/6  since 0 s
        1 of 4 tasks; more with --limit N, one in full with --task ID
    "#]],
    );
    check(
        &bench,
        &["state", "--at", "9", "--task", "1"],
        &expect![[r#"
            exit 0
            state at sequence 9, 2026-03-14 02:10:00
            task 1  fetch  RUNNING  created 2026-03-14 02:10:00  (now)
              payload     {   "größe": 12345678901234567890.10 ,"s":"a\nb" }
              checkpoint  {"cursor":"o_99123"}

              02:10:00.020  PENDING               created          uid 1000
              02:10:00.035  PENDING   → RUNNING   dispatched       worker 2
              02:10:00.065  RUNNING   → RETRYING  retryable_error  next run in 1 min 14 s; HTTP 502 (worker 2)
              02:10:00.075  RETRYING                               made due at once (uid 1000)
              02:10:00.085  RETRYING  → RUNNING   dispatched       worker 2

              #  started         ran   wait  end        exit  log  memory  cpu  worker
              1  02:10:00.045  20 ms  14 ms  retryable    75    –       –    –  2
              2  02:10:00.085      –  10 ms  running       –    –       –    –  2
              midwatch log 1 --attempt N    logs/1/N.log
        "#]],
    );
    check(
        &bench,
        &["state", "--at", "9", "--task", "2"],
        &expect![[r#"
        exit 3
        error: there is no task 2 at sequence 9
    "#]],
    );
}

#[test]
fn a_task_of_the_past_has_the_fields_that_show_gives() {
    let mut bench = Bench::new();
    bench.full_history();
    bench.close();
    let state = document(&bench, &["state", "--at", "4", "--json"]);
    expect![[r#"{"after":null,"after_any":null,"checkpoint":[1],"created_at":"2026-03-14T02:10:00.020Z","error":null,"executor_id":2,"id":1,"key":"nightly-2026","lease_expire_time":"2026-03-14T02:11:00.035Z","lost_count":0,"max_retry":1,"next_run_time":null,"payload":{"größe":1.2345678901234567e+19,"s":"a\nb"},"priority":-3,"progress":null,"result":null,"retry_count":0,"retry_of":null,"schedule":null,"status":"RUNNING","status_since":"2026-03-14T02:10:00.035Z","stop_requested":null,"timeout":"10m","type":"fetch","updated_at":"2026-03-14T02:10:00.035Z","usage":null,"waiting_for":null}"#]].assert_eq(&state["tasks"][0].to_string());
    expect![[r#"{"holds":[{"fence":4,"progress":null,"since":"2026-03-14T02:10:00.035Z","task":1,"type":"fetch"}],"host":"relay-7","id":2,"name":"w1","pid":700,"silent_ms":null,"slots":8,"status":"alive","types":["fetch"],"version":"0.1.0"}"#]].assert_eq(&state["workers"][0].to_string());
    let one = document(&bench, &["state", "--at", "11", "--json", "--task", "1"]);
    assert_eq!(one["task"]["status"], "DEAD");
    assert_eq!(one["attempts"].as_array().unwrap().len(), 2);
}

#[test]
fn a_time_means_the_last_record_that_is_not_later() {
    let mut bench = Bench::new();
    bench.full_history();
    bench.close();
    let at = |text: &str| document(&bench, &["state", "--json", "--at", text])["seq"].clone();
    assert_eq!(at("2026-03-14T02:10:00.035Z"), 4);
    assert_eq!(at("2026-03-14T02:10:00.044Z"), 4);
    assert_eq!(at("2026-03-14T03:10:00.045+01:00"), 5);
    assert_eq!(at("2026-03-14 02:10:01"), 25, "the tests run in UTC");
    assert_eq!(at("1s ago"), 25);
    let (code, _, err) = on(&bench, &["state", "--at", "2026-03-14T02:09:59Z"]);
    assert_eq!(code, 3);
    expect![[r#"
        error: the state at 2026-03-14 02:09:59 is not held any more
          the earliest one is sequence 1, 2026-03-14 02:10:00
    "#]]
    .assert_eq(&err);
    let (code, _, err) = on(&bench, &["state", "--at", "26"]);
    assert_eq!(code, 3);
    expect![[r#"
        error: there is no record 26 yet
          the last one is sequence 25, 2026-03-14 02:10:00
    "#]]
    .assert_eq(&err);
    let (code, _, err) = on(&bench, &["state", "--at", "yesterday"]);
    assert!(code == 2 && err.contains("2h ago"), "{err}");
}

#[test]
fn where_the_clock_was_stepped_back_the_order_is_by_sequence() {
    let mut bench = Bench::new();
    bench.submit("1");
    bench.step_back(Millis::secs(3600));
    bench.submit("2");
    bench.close();
    let at = |text: &str| document(&bench, &["state", "--json", "--at", text])["seq"].clone();
    assert_eq!(at("2026-03-14T02:10:00.010Z"), 3, "the last of all that are not later");
    assert_eq!(at("2026-03-14T01:10:00.020Z"), 3);
    let (code, ..) = on(&bench, &["state", "--at", "2026-03-14T01:10:00.000Z"]);
    assert_eq!(code, 3);
}

#[test]
fn what_is_not_held_any_more_is_refused_with_what_is() {
    let bench = compacted();
    let (code, out, err) = on(&bench, &["state", "--at", "1"]);
    assert_eq!((code, out.as_str()), (3, ""));
    let earliest = err.split("sequence ").nth(2).unwrap().split(',').next().unwrap().to_owned();
    let first = document(&bench, &["state", "--json", "--at", &earliest]);
    assert_eq!(first["seq"].to_string(), earliest);
    let before = (earliest.parse::<u64>().unwrap() - 1).to_string();
    assert_eq!(on(&bench, &["state", "--at", &before]).0, 3);
}

#[test]
fn a_damaged_store_gives_no_state() {
    let mut bench = Bench::new();
    bench.full_history();
    bench.close();
    let first = bench.segments().remove(0);
    edit(&first, |file| file[4140] ^= 1);
    for command in ["state", "stats", "compact"] {
        let (code, out, err) = on(&bench, &[command]);
        assert_eq!((code, out.as_str()), (6, ""), "{command}");
        assert!(err.contains("To look: midwatch-journal inspect DIR --at 1:4096"), "{err}");
    }
}

#[test]
fn the_figures_add_up() {
    let mut bench = Bench::new();
    bench.full_history();
    bench.close();
    check(
        &bench,
        &["stats"],
        &expect![[r#"
            exit 0
            store in DIR
              records    1 to 25: 25 in 22 frames, 3 segments, 24 KiB
              first      sequence 1, 2026-03-14 02:10:00
              last       sequence 25, 2026-03-14 02:10:00
              frames     1.1 records each; 85 % headers and padding
              tasks      4 tasks: 1 LOST, 1 SUCCESS, 1 DEAD, 1 CANCELLED
              on disk    24 KiB journal, 0 B snapshots; 24 KiB a task not ended
              needed     every segment: no second snapshot stands in for them
              compact    would free 9.5 KiB

              KIND                   RECORDS        SIZE  SHARE
              submitted                    4       413 B   25 %
              leased                       4       256 B   15 %
              ended                        3       227 B   14 %
              moved                        5       215 B   13 %
              worker_joined                1       109 B    6 %
              heard                        1        83 B    5 %
              worker_moved                 2        80 B    4 %
              checkpointed                 1        62 B    3 %
              started                      1        50 B    3 %
              stop_requested               1        44 B    2 %
              refused                      1        42 B    2 %
              hurried                      1        40 B    2 %

              FILE                    SEQUENCE       RECORDS        SIZE
              1                              1             9       8 KiB
              2                             10             9       8 KiB
              3                             19             7       8 KiB
        "#]],
    );
    let stats = document(&bench, &["stats", "--json"]);
    let sum = |list: &str, field: &str| -> u64 {
        stats[list].as_array().unwrap().iter().map(|one| one[field].as_u64().unwrap()).sum()
    };
    assert_eq!(sum("kinds", "records"), 25);
    assert_eq!(Value::from(sum("kinds", "bytes")), stats["record_bytes"]);
    assert_eq!(sum("segments", "records"), 25);
    let on_disk: usize =
        image(&bench.path().join("journal")).iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(stats["journal_bytes"], on_disk);
    assert_eq!(stats["first"]["seq"], 1);
    assert_eq!(stats["live_tasks"], 1);
}

#[test]
fn the_oldest_needed_segment_is_the_one_behind_the_older_snapshot() {
    let bench = compacted();
    let stats = document(&bench, &["stats", "--json"]);
    let first = stats["segments"][0]["number"].as_u64().unwrap();
    assert!(1 < first, "{stats}");
    assert_eq!(stats["oldest_needed_segment"], first);
    assert_eq!(stats["snapshots"].as_array().unwrap().len(), 2);
    let (_, out, _) = on(&bench, &["stats"]);
    assert!(
        out.contains(&format!("  needed     from segment {first} on, behind snapshot ")),
        "{out}"
    );
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
}

#[test]
fn man_pages_and_completions_come_from_the_definitions() {
    let (code, page, _) = tool(&["man"]);
    assert!(code == 0 && page.contains(".TH midwatch-journal 1") && page.contains("compact"));
    let (code, page, _) = tool(&["man", "compact"]);
    assert!(code == 0 && page.contains("Needs the lock"), "{page}");
    assert_eq!(tool(&["man", "dance"]).0, 2);
    for (shell, word) in [("bash", "complete"), ("fish", "complete"), ("zsh", "#compdef")] {
        let (code, script, _) = tool(&["completions", shell]);
        assert!(code == 0 && script.contains(word) && script.contains("follow"), "{shell}");
    }
}
