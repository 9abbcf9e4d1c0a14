//! The engine goes away and comes back.

use super::Crew;
use crate::eventually::eventually;
use midwatch::kernel::status::Outcome;
use midwatch::process;

// spec: PRC-042
#[test]
fn ends_wait_in_order_while_the_engine_is_away() {
    let crew = Crew::new(
        3,
        &[(
            "n",
            "n=$(cat); echo up > $DIR/up.$n; read -r go < $DIR/go.$n; echo over > $DIR/over.$n",
        )],
    );
    let fences: Vec<_> = (0..3).map(|n| crew.engine.lease("n", &n.to_string())).collect();
    for n in 0..3 {
        let fifo = crew.file(&format!("go.{n}"));
        std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    }
    for n in 0..3 {
        crew.wait_for_file(&format!("up.{n}"));
    }
    crew.engine.book().is_away = true;
    for n in [2, 0, 1] {
        std::fs::write(crew.file(&format!("go.{n}")), "go\n").unwrap();
        crew.wait_for_file(&format!("over.{n}"));
        let fence = fences[n];
        eventually("its directory is gone, so its end waits", || {
            let tmp = process::tmp_dir(&crew.file("run"), fence);
            (!tmp.exists()).then_some(())
        });
    }
    assert!(crew.engine.book().ends.is_empty());
    crew.engine.book().is_away = false;
    for fence in &fences {
        assert_eq!(crew.engine.end_of(*fence).outcome, Outcome::Success);
    }
    let order: Vec<_> = crew.engine.book().ends.iter().map(|end| end.lease.fence).collect();
    assert_eq!(order, [fences[2], fences[0], fences[1]]);
    assert_eq!(crew.engine.book().registrations.len(), 1);
}

// spec: HND-015, PRC-041
#[test]
fn a_checkpoint_waits_for_the_engine_and_comes_before_the_end() {
    let script = r#"
        echo up > $DIR/up; read -r go < $DIR/go
        echo '{"op":"checkpoint","data":{"at":5}}' >&3; echo sent > $DIR/sent; exit 75"#;
    let crew = Crew::new(1, &[("save", script)]);
    std::process::Command::new("mkfifo").arg(crew.file("go")).status().unwrap();
    let fence = crew.engine.lease("save", "null");
    crew.wait_for_file("up");
    crew.engine.book().is_away = true;
    std::fs::write(crew.file("go"), "go\n").unwrap();
    crew.wait_for_file("sent");
    crew.engine.book().is_away = false;
    assert_eq!(crew.engine.end_of(fence).outcome, Outcome::Retryable);
    assert_eq!(crew.engine.book().checkpoints, [(fence, r#"{"at":5}"#.to_owned())]);
}

// spec: PRC-042
#[test]
fn a_worker_that_the_engine_forgot_kills_what_it_holds_and_begins_anew() {
    let crew =
        Crew::new(1, &[("stay", "trap '' TERM; echo $$ > $DIR/pid; sleep 600 & wait; wait")]);
    let fence = crew.engine.lease("stay", "null");
    let leader = crew.process_in("pid");
    crew.engine.book().worker = 0;
    eventually("it is dead", || (!process::is_alive(&leader).unwrap()).then_some(()));
    crew.engine.wait("a second registration", |book| book.registrations.len() == 2);
    crew.engine.book().held = 0;
    let next = crew.engine.lease("exec", r#"{"argv":["true"]}"#);
    assert_eq!(crew.engine.end_of(next).outcome, Outcome::Success);
    assert!(crew.engine.book().ends.iter().all(|end| end.lease.fence != fence));
    let book = crew.engine.book();
    assert_eq!(book.registrations[0].lock, book.registrations[1].lock);
}
