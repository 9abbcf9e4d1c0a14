//! A worker without command line or config, for the tests in `tests/it/worker`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a part of the tests"
)]

use midwatch::process;
use midwatch::worker::{HandlerSpec, WorkerOptions};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let setup = std::env::var("MW_TEST_WORKER").unwrap();
    let setup: serde_json::Value = serde_json::from_str(&setup).unwrap();
    let path = |name: &str| PathBuf::from(setup[name].as_str().unwrap());
    let inherited = |name: &str| {
        let number = i32::try_from(setup[name].as_i64()?).unwrap();
        Some(process::inherited(number).unwrap())
    };
    let sh = |script: &str| HandlerSpec {
        command: vec!["sh".into(), "-c".into(), script.into()],
        log_max: setup["log_max"].as_u64().unwrap(),
        retryable_exit_codes: vec![77],
        fatal_exit_codes: vec![9, 64, 77, 78],
        env: BTreeMap::from([("DIR".into(), setup["data_dir"].as_str().unwrap().into())]),
        env_pass: vec!["PASSED".into()],
        ..HandlerSpec::default()
    };
    let scripts = setup["handlers"].as_object().unwrap();
    let handlers =
        scripts.iter().map(|(kind, script)| (kind.clone(), sh(script.as_str().unwrap())));
    let result = midwatch::worker::run(WorkerOptions {
        data_dir: path("data_dir"),
        socket: path("socket"),
        name: "w1".into(),
        slots: u32::try_from(setup["slots"].as_u64().unwrap()).unwrap(),
        handlers: handlers.collect(),
        environment: std::env::vars_os().collect(),
        lifeline: inherited("lifeline"),
        probe: inherited("probe"),
    });
    result.map_or_else(
        |error| {
            eprintln!("{error}");
            ExitCode::from(error.exit())
        },
        |()| ExitCode::SUCCESS,
    )
}
