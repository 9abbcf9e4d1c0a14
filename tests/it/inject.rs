//! Faults at some calls of the real engine in the plain test run (`MIDWATCH_INJECT_POINTS` asks for
//! more); `tools/inject.sh` goes through all of them with the release build.

#[path = "../../tools/inject/driver.rs"]
mod driver;
#[path = "../../tools/inject/script.rs"]
mod script;

pub(crate) use driver::can_inject;

/// Points in the plain test run.
const POINTS: usize = 40;

#[test]
fn whichever_call_fails_or_is_the_last_what_was_acknowledged_is_there_once() {
    if !can_inject() {
        return;
    }
    let wanted = std::env::var("MIDWATCH_INJECT_POINTS");
    let wanted = wanted.map_or(POINTS, |text| text.parse().unwrap());
    let programs = driver::Programs::canonical(
        env!("CARGO_BIN_EXE_midwatch"),
        env!("CARGO_BIN_EXE_midwatch-journal"),
    );
    let dir = tempfile::tempdir().unwrap();
    let figures = driver::run(&programs, dir.path(), Some(wanted));
    println!("{figures:#?}");
    assert_eq!(figures.failed, Vec::<String>::new());
    assert!(figures.unmet * 2 < figures.points, "most of them proved nothing: {figures:?}");
}
