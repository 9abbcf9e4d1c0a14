//! `midwatch type`: whole task types: what holds for them, pausing them, and their bounds.

use super::connection::{escape, get, post};
use super::failure::{Failure, exit};
use super::paint::Ink;
use super::session::{Format, Session, View};
use super::show::fact;
use super::table::{Cell, Column, Table};
use crate::api::{
    BoundView, LimitTypeRequest, MaxRunning, OrderView, PauseTypeRequest, TypeActed, TypeView,
    Types,
};
use crate::kernel::task_type::Rate;
use crate::limits::MAX_RUNNING_MAX;
use crate::units;
use clap::ArgGroup;

/// What to do with a task type.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Every type: what runs, what waits, its bounds, and whether it is paused
    #[command(visible_alias = "ls")]
    List,
    /// Everything about one type
    Show {
        /// The type
        #[arg(value_name = "TYPE")]
        kind: String,
    },
    /// Let nothing more of a type start; what runs goes on, also over restarts of the daemon
    Pause {
        /// The type
        #[arg(value_name = "TYPE")]
        kind: String,
        /// Why, for those who find it paused
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Let a paused type run again
    Resume {
        /// The type
        #[arg(value_name = "TYPE")]
        kind: String,
    },
    /// Set how much of a type may run, in the place of what the config says
    Limit(LimitArgs),
}

/// Bounds of a type.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
What is set here holds until it is set anew, also over restarts and whatever the config says;
`config` gives a bound back to the config, `none` lifts it.

  midwatch type limit fetch --max-running 2 --rate 10/m
  midwatch type limit fetch --rate none            as fast as the workers can
  midwatch type limit fetch --max-running config --rate config")]
#[command(group(
    ArgGroup::new("bound").required(true).multiple(true).args(["max_running", "rate"])
))]
pub(crate) struct LimitArgs {
    /// The type
    #[arg(value_name = "TYPE")]
    kind: String,
    /// Tasks at once, over all workers: a number, none, or config
    #[arg(long, value_name = "N", value_parser = max_running)]
    max_running: Option<MaxRunning>,
    /// Starts in any second, minute or hour: 5/s, 10/m, 100/h, none, or config
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<String>,
}

fn max_running(text: &str) -> Result<MaxRunning, String> {
    if ["none", "config"].contains(&text) {
        return Ok(MaxRunning::Word(text.to_owned()));
    }
    let number = text.parse().ok().filter(|number| (1..=MAX_RUNNING_MAX).contains(number));
    let number = number.and_then(|number| u32::try_from(number).ok());
    let wrong = || format!("give a number from 1 to {MAX_RUNNING_MAX}, none, or config");
    number.map(MaxRunning::Number).ok_or_else(wrong)
}

fn rate(text: &str) -> Result<String, String> {
    if ["none", "config"].contains(&text) {
        return Ok(text.to_owned());
    }
    text.parse::<Rate>()
        .map(|rate| rate.to_string())
        .map_err(|error| format!("{error}; or none, or config"))
}

/// Does it.
pub(crate) fn run(command: &Command, session: &mut Session<'_>) -> Result<u8, Failure> {
    match command {
        Command::List => list(session)?,
        Command::Show { kind } => show(kind, session)?,
        Command::Pause { kind, reason } => {
            let acted = act(kind, "pause", &PauseTypeRequest { reason: reason.clone() }, session)?;
            tell(&acted, "paused", session)?;
        }
        Command::Resume { kind } => {
            let acted = act(kind, "resume", &serde_json::json!({}), session)?;
            tell(&acted, "resumed", session)?;
        }
        Command::Limit(LimitArgs { kind, max_running, rate }) => {
            let request = LimitTypeRequest { max_running: max_running.clone(), rate: rate.clone() };
            let acted = act(kind, "limit", &request, session)?;
            let bounds = bounds(&acted.view);
            tell(&acted, &bounds, session)?;
        }
    }
    Ok(exit::DONE)
}

/// The path of a type.
pub(super) fn path(kind: &str) -> String {
    format!("/v1/types/{}", escape(kind))
}

fn act<T: serde::Serialize>(
    kind: &str,
    verb: &str,
    body: &T,
    session: &Session<'_>,
) -> Result<TypeActed, Failure> {
    post(session.api, &format!("{}/{verb}", path(kind)), body)
}

fn tell(acted: &TypeActed, what: &str, session: &mut Session<'_>) -> Result<(), Failure> {
    let already = if acted.changed { "" } else { " already" };
    match session.format {
        Format::Json | Format::Ndjson => session.json(acted),
        Format::Table => session.print(&format!("{} {what}{already}\n", acted.view.kind)),
    }
}

fn list(session: &mut Session<'_>) -> Result<(), Failure> {
    let types: Types = get(session.api, "/v1/types")?;
    match session.format {
        Format::Json => session.json(&types),
        Format::Ndjson => types.types.iter().try_for_each(|one| session.json(one)),
        Format::Table => session.show(&render_list(&types, &session.view)),
    }
}

fn show(kind: &str, session: &mut Session<'_>) -> Result<(), Failure> {
    let one: TypeView = get(session.api, &path(kind))?;
    match session.format {
        Format::Json | Format::Ndjson => session.json(&one),
        Format::Table => session.show(&render(&one, &session.view)),
    }
}

fn render_list(types: &Types, view: &View) -> String {
    let mut table = Table::new(&[
        Column::left("TYPE"),
        Column::left("STATUS"),
        Column::right("RUNNING"),
        Column::right("WAITING"),
        Column::left("RATE").rank(2),
        Column::right("DEAD").rank(1),
        Column::left("NOTE"),
    ]);
    for one in &types.types {
        let (status, ink) = status(one);
        let waiting = count(one, "PENDING").saturating_add(count(one, "RETRYING"));
        table.row(vec![
            one.kind.as_str().into(),
            Cell::new(status, ink),
            running(one).into(),
            waiting.to_string().into(),
            paced(one).unwrap_or_default().into(),
            count(one, "DEAD").to_string().into(),
            note(one, view).into(),
        ]);
    }
    table.render(view.width, view.paint)
}

/// How a type stands, in a word.
pub(super) fn status(one: &TypeView) -> (&'static str, Ink) {
    let full = one.max_running.value.is_some_and(|max| u64::from(max) <= one.running);
    match one {
        TypeView { paused: Some(_), .. } => ("paused", Ink::Yellow),
        _ if full && one.due != 0 => ("full", Ink::Plain),
        TypeView { next_dispatch_at: Some(_), .. } if one.due != 0 => ("paced", Ink::Plain),
        _ => ("open", Ink::Plain),
    }
}

pub(super) fn count(one: &TypeView, status: &str) -> u64 {
    one.tasks.get(status).copied().unwrap_or_default()
}

pub(super) fn running(one: &TypeView) -> String {
    match one.max_running.value {
        Some(max) => format!("{} of {max}", one.running),
        None => one.running.to_string(),
    }
}

fn paced(one: &TypeView) -> Option<String> {
    one.rate.value.as_ref().map(|rate| format!("{} of {rate}", one.dispatched))
}

pub(super) fn note(one: &TypeView, view: &View) -> String {
    match &one.paused {
        Some(order) => said(order, view),
        None if one.configured => String::new(),
        None => "not in the config".to_owned(),
    }
}

/// `9 min ago by uid 0: the bank is down`.
fn said(order: &OrderView, view: &View) -> String {
    let OrderView { by, at, reason } = order;
    let why = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{} by {by}{why}", view.relative(at))
}

fn bounds(one: &TypeView) -> String {
    let TypeView { max_running, rate, .. } = one;
    let rate = BoundView { value: rate.value.as_deref(), from: rate.from.clone() };
    format!("max_running {}, rate {}", bound(max_running), bound(&rate))
}

/// `2 (config)`.
fn bound<T: std::fmt::Display>(bound: &BoundView<T>) -> String {
    match &bound.value {
        Some(value) => format!("{value} ({})", bound.from),
        None => format!("none ({})", bound.from),
    }
}

pub(super) fn render(one: &TypeView, view: &View) -> String {
    let (status, ink) = status(one);
    let kind = super::text::tame(&one.kind);
    let mut text =
        format!("type {}  {}\n\n", view.paint.with(Ink::Bold, &kind), view.paint.with(ink, status));
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            text += &fact(name, &value, view);
        }
    };
    line("paused", one.paused.as_ref().map(|order| said(order, view)));
    line("running", Some(running(one)));
    line("bounds", Some(bounds(one)));
    line("set", one.limited.as_ref().map(|order| said(order, view)));
    line("rate", paced(one));
    line("next start", one.next_dispatch_at.as_ref().map(|at| view.absolute(at)));
    line("due", Some(units::count(one.due)));
    let tasks = one.tasks.iter().filter(|(_, count)| **count != 0);
    let tasks: Vec<_> = tasks.map(|(status, count)| format!("{count} {status}")).collect();
    line("tasks", Some(tasks.join(", ")).filter(|tasks| !tasks.is_empty()));
    line("config", (!one.configured).then(|| "there is no handler for it".to_owned()));
    if one.paused.is_some() {
        text += &format!("\n  midwatch type resume {kind}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::samples;
    use expect_test::expect;

    fn open(kind: &str) -> TypeView {
        let bound = |from: &str| BoundView { value: None, from: from.to_owned() };
        TypeView {
            kind: kind.to_owned(),
            configured: true,
            paused: None,
            max_running: BoundView { value: Some(3), from: "config".to_owned() },
            rate: bound("default"),
            limited: None,
            dispatched: 0,
            next_dispatch_at: None,
            running: 2,
            due: 40,
            tasks: [("PENDING", 41), ("RETRYING", 1), ("RUNNING", 2), ("DEAD", 0)]
                .map(|(status, count)| (status.to_owned(), count))
                .into(),
        }
    }

    fn paused() -> TypeView {
        let order = |reason: Option<&str>| OrderView {
            by: "uid 1000".to_owned(),
            at: "2026-03-14T02:31:00.000Z".to_owned(),
            reason: reason.map(str::to_owned),
        };
        TypeView {
            paused: Some(order(Some("the upstream is down"))),
            limited: Some(order(None)),
            rate: BoundView { value: Some("10/m".to_owned()), from: "set".to_owned() },
            dispatched: 7,
            configured: false,
            ..open("render_report")
        }
    }

    fn paced() -> TypeView {
        TypeView {
            rate: BoundView { value: Some("2/h".to_owned()), from: "config".to_owned() },
            dispatched: 2,
            next_dispatch_at: Some("2026-03-14T02:45:00.000Z".to_owned()),
            ..open("mail")
        }
    }

    fn full() -> TypeView {
        TypeView { running: 3, ..open("pack") }
    }

    #[test]
    fn the_list_says_what_holds_each_type_up() {
        let types = Types { types: vec![open("fetch_data"), full(), paced(), paused()] };
        let text = render_list(&types, &samples::view(Some(90)));
        assert!(text.lines().all(|line| crate::cli::text::width(line) <= 90));
        expect![[r#"
            screen
              TYPE           STATUS  RUNNING  WAITING  RATE       DEAD  NOTE
              fetch_data     open     2 of 3       42                0
              pack           full     3 of 3       42                0
              mail           paced    2 of 3       42  2 of 2/h      0
              render_report  paused   2 of 3       42  7 of 10/m     0  9 min ago by uid 1000: the up…
        "#]]
        .assert_eq(&samples::screen(&text));
    }

    #[test]
    fn one_type_says_where_its_bounds_come_from_and_what_helps() {
        expect![[r#"
            type render_report  paused

              paused      9 min ago by uid 1000: the upstream is down
              running     2 of 3
              bounds      max_running 3 (config), rate 10/m (set)
              set         9 min ago by uid 1000
              rate        7 of 10/m
              due         40
              tasks       41 PENDING, 1 RETRYING, 2 RUNNING
              config      there is no handler for it

              midwatch type resume render_report
        "#]]
        .assert_eq(&render(&paused(), &samples::view(Some(80))));
        let text = render(&paced(), &samples::view(Some(80)));
        assert!(text.contains("next start  2026-03-14 02:45:00Z  (in 5 min)"), "{text}");
    }

    fn acted(view: TypeView, changed: bool) -> String {
        serde_json::to_string(&TypeActed { view, changed }).unwrap()
    }

    #[test]
    fn every_order_travels_and_says_what_became_of_it() {
        let orders = [
            (
                "type pause render_report --reason down",
                r#"POST /v1/types/render_report/pause {"reason":"down"}"#,
                true,
                "render_report paused\n",
            ),
            (
                "type pause a/b",
                "POST /v1/types/a%2Fb/pause {}",
                false,
                "render_report paused already\n",
            ),
            (
                "type resume render_report",
                "POST /v1/types/render_report/resume {}",
                true,
                "render_report resumed\n",
            ),
            (
                "type limit render_report --max-running 3 --rate none",
                r#"POST /v1/types/render_report/limit {"max_running":3,"rate":"none"}"#,
                true,
                "render_report max_running 3 (config), rate 10/m (set)\n",
            ),
            (
                "type limit render_report --max-running config",
                r#"POST /v1/types/render_report/limit {"max_running":"config"}"#,
                true,
                "render_report max_running 3 (config), rate 10/m (set)\n",
            ),
        ];
        for (words, asked, changed, said) in orders {
            let played = samples::play(words, &[(asked, acted(paused(), changed))]);
            assert_eq!((played.code, played.out.as_str()), (0, said), "{words}");
        }
        let asked = "POST /v1/types/mail/resume {}";
        let played = samples::play("type resume mail --json", &[(asked, acted(paced(), false))]);
        let view: serde_json::Value = serde_json::from_str(&played.out).unwrap();
        assert_eq!((&view["type"], &view["changed"]), (&"mail".into(), &false.into()));
    }

    #[test]
    fn a_type_that_is_not_there_exits_3_and_slips_exit_2() {
        let problem = crate::api::Problem::new(crate::api::Code::NoSuchType, "there is none");
        let problem = serde_json::to_string(&problem).unwrap();
        let played = samples::play("type show nope", &[("GET /v1/types/nope", problem)]);
        assert_eq!((played.code, played.out.as_str()), (3, ""));
        for words in [
            "type",
            "type limit t",
            "type limit t --max-running 0",
            "type limit t --rate 0/m",
            "type limit t --rate 10/d",
            "type pause",
        ] {
            let played = samples::play(words, &[]);
            assert_eq!((played.code, played.out.as_str()), (2, ""), "{words}");
        }
    }
}
