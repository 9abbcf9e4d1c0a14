//! Whether what the config binds to the types can be started.

use super::Patient;
use super::finding::Finding;
use crate::config::Handler;
use crate::server;
use rustix::fs::{Access, access};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Where programs are looked up when nothing says where.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub(super) fn check(patient: &Patient) -> Vec<Finding> {
    let Ok(config) = &patient.config else {
        return vec![Finding::note("not looked at", "the config has to be mended first")];
    };
    if config.handlers.is_empty() {
        let why = "only `submit --exec` can be run; a type is bound to a command in the config";
        return vec![Finding::note("there are none", why)];
    }
    let path = std::env::var_os("PATH").and_then(|path| path.into_string().ok());
    let path = path.filter(|path| !path.is_empty()).unwrap_or_else(|| PATH.to_owned());
    let handlers = config.handlers.iter().filter(|(_, handler)| !handler.embedded);
    let mut findings: Vec<_> =
        handlers.flat_map(|(name, handler)| one(name, handler, &path)).collect();
    if findings.is_empty() {
        findings.push(Finding::ok(match config.handlers.len() {
            1 => "the 1 handler can be started".to_owned(),
            number => format!("all {number} can be started"),
        }));
    }
    findings
}

/// What is wrong with one.
pub(super) fn one(name: &str, handler: &Handler, path: &str) -> Vec<Finding> {
    let why = "its tasks would fail, each time they run";
    let problem = |what: String, command: String| {
        Finding::problem(format!("{name}: {what}"), why, &[&command])
    };
    let mut findings = Vec::new();
    if let Some(dir) = &handler.cwd
        && !dir.is_dir()
    {
        let what = format!("its directory {} is not there", dir.display());
        findings.push(problem(what, format!("mkdir -p {}", dir.display())));
    }
    if let Err(what) = server::limits_of(name, &handler.limits) {
        findings.push(problem(what, "getent passwd; getent group".to_owned()));
    }
    if let Some(schema) = &handler.schema
        && !(schema.is_file() && access(schema, Access::READ_OK).is_ok())
    {
        let what = format!("its schema {} cannot be read", schema.display());
        findings.push(problem(what, format!("ls -l {}", schema.display())));
    }
    let Some(program) = handler.command.first() else { return findings };
    let path = handler.env.get("PATH").map_or(path, String::as_str);
    match find(program, path, handler.cwd.as_deref()) {
        None => {
            let what = if program.contains('/') {
                format!("its command {program} is not there")
            } else {
                format!("its command {program} is nowhere in {path}")
            };
            findings.push(problem(what, format!("type {program}")));
        }
        Some(file) if access(&file, Access::EXEC_OK).is_err() => {
            let what = format!("its command {} may not be executed", file.display());
            findings.push(problem(what, format!("chmod +x {}", file.display())));
        }
        Some(file) => {
            if let Some(interpreter) = interpreter(&file).filter(|it| !it.exists()) {
                let what = format!(
                    "its script {} asks for {}, which is not there",
                    file.display(),
                    interpreter.display()
                );
                findings.push(problem(what, format!("head -n 1 {}", file.display())));
            }
        }
    }
    findings
}

fn find(program: &str, path: &str, cwd: Option<&Path>) -> Option<PathBuf> {
    if program.contains('/') {
        let file = cwd.unwrap_or_else(|| Path::new("/")).join(program);
        return file.is_file().then_some(file);
    }
    path.split(':').map(|dir| Path::new(dir).join(program)).find(|file| file.is_file())
}

/// The program that a script names in its first line.
fn interpreter(file: &Path) -> Option<PathBuf> {
    let mut line = Vec::new();
    BufReader::new(File::open(file).ok()?.take(256)).read_until(b'\n', &mut line).ok()?;
    let line = String::from_utf8(line).ok()?;
    let words = line.strip_prefix("#!")?;
    words.split_whitespace().next().map(PathBuf::from)
}
