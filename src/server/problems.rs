//! Refusals as HTTP answers.

use crate::api::{Code, Problem};
use crate::kernel::Rejection;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

/// A refusal on its way out.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) Problem);

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<Rejection> for Failure {
    fn from(rejection: Rejection) -> Self {
        Self(problem(&rejection))
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self(problem) = self;
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() =
            StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let kind = header::HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}

/// A problem with the request's own form.
pub(crate) fn invalid(detail: impl Into<String>) -> Failure {
    Failure(Problem::new(Code::InvalidRequest, detail))
}

/// A decision's refusal in the words of the API.
pub(crate) fn problem(rejection: &Rejection) -> Problem {
    let detail = rejection.to_string();
    match rejection {
        Rejection::NoSuchTask(_) => {
            Problem::new(Code::NoSuchTask, detail).with_help("midwatch list")
        }
        Rejection::Forgotten(_) => Problem::new(Code::NoSuchTask, detail)
            .with_help("`[retention]` in the config says how long they stay, and names an archive"),
        Rejection::NoSuchType(_) => {
            Problem::new(Code::NoSuchType, detail).with_help("midwatch type list")
        }
        Rejection::NoSuchSchedule(_) => {
            Problem::new(Code::NoSuchSchedule, detail).with_help("midwatch schedule list")
        }
        Rejection::NoSuchAlert(_) => {
            Problem::new(Code::NoSuchAlert, detail).with_help("midwatch alerts")
        }
        Rejection::ScheduleExists(name) => Problem::new(Code::ScheduleConflict, detail)
            .with_help(format!("to change it: midwatch schedule add {name} --replace …")),
        Rejection::ScheduleOfConfig(name) => Problem::new(Code::ScheduleConflict, detail)
            .with_help(format!("midwatch schedule pause {name}")),
        Rejection::BadTimes(_) | Rejection::TooManyToWaitFor(_) => {
            Problem::new(Code::InvalidRequest, detail)
        }
        Rejection::TooManySchedules | Rejection::FiresQueued(_) => {
            Problem::new(Code::OverLimit, detail)
        }
        Rejection::Overlaps { task, .. } => {
            Problem::new(Code::ScheduleConflict, detail).with_help(format!("midwatch show {task}"))
        }
        Rejection::RetriesUsed { task, .. } => Problem::new(Code::WrongStatus, detail)
            .with_help(format!("to end it: midwatch cancel {task}")),
        Rejection::NoSuchWorker(_) => Problem::new(Code::NoSuchWorker, detail),
        Rejection::WrongStatus { task, status, .. } if status.is_terminal() => {
            let help = format!("to run it again as a new task: midwatch retry {task}");
            Problem::new(Code::WrongStatus, detail).with_help(help)
        }
        Rejection::WrongStatus { task, .. } => {
            Problem::new(Code::WrongStatus, detail).with_help(format!("midwatch show {task}"))
        }
        Rejection::Blocked { open, .. } => {
            let first = open.first().map(|of| format!("midwatch show {of}"));
            Problem { help: first, ..Problem::new(Code::WrongStatus, detail) }
        }
        Rejection::KeyConflict { task, .. } => {
            Problem::new(Code::KeyConflict, detail).with_help(format!("midwatch show {task}"))
        }
        Rejection::Stale { .. } => Problem::new(Code::StaleLease, detail),
        Rejection::StillHeld(_) | Rejection::Needless => Problem::new(Code::WrongStatus, detail),
        Rejection::NoSpace => Problem::new(Code::NoSpace, detail)
            .with_help("free space there; tasks that run can still record their end"),
        Rejection::StateFull { .. } => Problem::new(Code::OverLimit, detail).with_help(
            "wait until waiting tasks have run, let ended ones go sooner (`retention.finished`, \
             `retention.max_finished`), or raise `retention.max_state` as far as memory allows",
        ),
    }
}
