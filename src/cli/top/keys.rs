//! What a key does to the model, and what it asks of the daemon. Pure: a test types at it.

use super::ask::{Act, Order};
use super::draw;
use super::model::{Key, List, Mode, Model, Question};
use super::page::{Page, Wanted};
use crate::cli::text::tame;
use crate::kernel::ids::TaskId;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// What a key asks of the rest of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// To end.
    Quit,
    /// To stand still until the shell says otherwise.
    Suspend,
    /// To draw everything anew.
    Redraw,
    /// Something of the daemon.
    Order(Order),
}

/// Letters of a filter.
const FILTER_MAX: usize = 60;

/// Takes up a key.
pub(super) fn press(model: &mut Model, key: KeyEvent) -> Option<Wish> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(Wish::Quit),
            KeyCode::Char('z') => Some(Wish::Suspend),
            KeyCode::Char('l') => Some(Wish::Redraw),
            _ => None,
        };
    }
    model.said = None;
    match std::mem::replace(&mut model.mode, Mode::Lists) {
        Mode::Lists => in_lists(model, key.code),
        Mode::Filter(before) => {
            in_filter(model, before, key.code);
            None
        }
        Mode::Ask(question) => in_question(model, question, key.code),
        Mode::Page(page) => in_page(model, page, key.code),
    }
}

/// Takes up pasted text: it is typed only where text is wanted, and commands nothing.
pub(super) fn paste(model: &mut Model, text: &str) {
    if let Mode::Filter(_) = model.mode {
        let letters = tame(text);
        let room = FILTER_MAX.saturating_sub(model.filter.chars().count());
        model.filter.extend(letters.chars().take(room));
    }
}

fn in_question(model: &mut Model, question: Question, key: KeyCode) -> Option<Wish> {
    if matches!(key, KeyCode::Char('y' | 'Y')) {
        return Some(Wish::Order(Order::Act(question.act)));
    }
    model.said = Some("nothing was done".to_owned());
    None
}

fn in_filter(model: &mut Model, before: String, key: KeyCode) {
    match key {
        KeyCode::Enter => return,
        KeyCode::Esc => {
            model.filter = before;
            return;
        }
        KeyCode::Backspace => drop(model.filter.pop()),
        KeyCode::Char(letter) if model.filter.chars().count() < FILTER_MAX => {
            model.filter.push(letter);
        }
        _ => {}
    }
    model.mode = Mode::Filter(before);
}

fn in_page(model: &mut Model, mut page: Box<Page>, key: KeyCode) -> Option<Wish> {
    let rows = draw::page_rows(model);
    let all = page.lines(&draw::page_view(model)).len();
    let screen = isize::try_from(rows).unwrap_or(1).saturating_sub(1).max(1);
    match key {
        KeyCode::Esc | KeyCode::Char('q') => return Some(Wish::Order(model.close())),
        KeyCode::Char('l') if matches!(page.wanted, Wanted::Log(_)) => {
            return Some(Wish::Order(model.close()));
        }
        KeyCode::Enter | KeyCode::Char('?') if matches!(page.wanted, Wanted::Help) => {
            return Some(Wish::Order(model.close()));
        }
        KeyCode::Up | KeyCode::Char('k') => page.scroll(-1, all, rows),
        KeyCode::Down | KeyCode::Char('j') => page.scroll(1, all, rows),
        KeyCode::PageUp | KeyCode::Char('b') => page.scroll(-screen, all, rows),
        KeyCode::PageDown | KeyCode::Char(' ') => page.scroll(screen, all, rows),
        KeyCode::Home | KeyCode::Char('g') => page.scroll(isize::MIN, all, rows),
        KeyCode::End | KeyCode::Char('G') => page.scroll(isize::MAX, all, rows),
        KeyCode::Left => page.pan(-8),
        KeyCode::Right => page.pan(8),
        KeyCode::Char('f') if matches!(page.wanted, Wanted::Log(_)) => {
            page.top = page.first(all, rows);
            page.follow = !page.follow;
        }
        _ => {}
    }
    model.mode = Mode::Page(page);
    None
}

fn in_lists(model: &mut Model, key: KeyCode) -> Option<Wish> {
    match key {
        KeyCode::Char('q') => return Some(Wish::Quit),
        KeyCode::Esc => model.filter.clear(),
        KeyCode::Tab | KeyCode::Right => model.turn(true),
        KeyCode::BackTab | KeyCode::Left => model.turn(false),
        KeyCode::Up | KeyCode::Char('k') => model.step(-1),
        KeyCode::Down | KeyCode::Char('j') => model.step(1),
        KeyCode::PageUp => model.step(-10),
        KeyCode::PageDown => model.step(10),
        KeyCode::Home | KeyCode::Char('g') => model.step(isize::MIN),
        KeyCode::End | KeyCode::Char('G') => model.step(isize::MAX),
        KeyCode::Char('/') => model.mode = Mode::Filter(model.filter.clone()),
        KeyCode::Char('?') | KeyCode::F(1) => {
            model.mode = Mode::Page(Box::new(Page::new(Wanted::Help)));
        }
        KeyCode::Enter => return open(model, false),
        KeyCode::Char('l') => return open(model, true),
        KeyCode::Char('c') => cancel(model),
        KeyCode::Char('r') => retry(model),
        KeyCode::Char('p') => pause(model),
        KeyCode::Char('a') => acknowledge(model),
        _ => {}
    }
    None
}

/// Opens a page about the chosen row.
fn open(model: &mut Model, log: bool) -> Option<Wish> {
    let wanted = match (model.pick()?, model.focus) {
        (Key::Task(id), _) if log => Wanted::Log(id),
        (Key::Task(id), _) => Wanted::Task(id),
        (Key::Name(_), _) if log => {
            model.said = Some("l shows the log of a task: choose one with Tab".to_owned());
            return None;
        }
        (Key::Name(name), List::Schedules) => Wanted::Schedule(name),
        (Key::Name(name), _) => Wanted::Type(name),
    };
    model.mode = Mode::Page(Box::new(Page::new(wanted.clone())));
    Some(Wish::Order(Order::Open(wanted)))
}

/// The chosen task, and what to call it.
fn chosen_task(model: &mut Model) -> Option<(TaskId, String)> {
    let Some(Key::Task(id)) = model.pick() else { return None };
    let kind = model.task(id).map(|task| tame(&task.kind)).unwrap_or_default();
    Some((id, format!("{id} {kind}")))
}

fn ask(model: &mut Model, text: String, act: Act) {
    model.mode = Mode::Ask(Question { text, act });
}

fn cancel(model: &mut Model) {
    match (model.focus, chosen_task(model)) {
        (List::Running, Some((id, name))) => {
            ask(model, format!("cancel task {name} for good?"), Act::Cancel(id));
        }
        (List::Ended, Some((_, name))) => {
            model.said = Some(format!("task {name} has ended; r runs it again"));
        }
        _ => model.said = Some("c cancels a task: choose one with Tab".to_owned()),
    }
}

fn retry(model: &mut Model) {
    match (model.focus, chosen_task(model)) {
        (List::Ended, Some((id, name))) => {
            ask(model, format!("run task {name} again, as a new task?"), Act::Retry(id));
        }
        (List::Running, Some((_, name))) => {
            model.said = Some(format!("task {name} runs; r is for tasks that have ended"));
        }
        _ => {
            model.said = Some("r runs a task that has ended again: choose one with Tab".to_owned());
        }
    }
}

fn pause(model: &mut Model) {
    match (model.focus, model.pick()) {
        (List::Schedules, Some(Key::Name(name))) => {
            let mut known = model.news.schedules.iter();
            let paused = known.any(|one| one.name == name && one.paused.is_some());
            let shown = tame(&name);
            if paused {
                ask(model, format!("resume schedule {shown}?"), Act::ResumeSchedule(name));
            } else {
                let text = format!("pause schedule {shown}? it will not fire until it is resumed");
                ask(model, text, Act::PauseSchedule(name));
            }
        }
        (_, Some(key)) => {
            let kind = match key {
                Key::Name(kind) => Some(kind),
                Key::Task(id) => model.task(id).map(|task| task.kind.clone()),
            };
            if let Some(kind) = kind {
                pause_type(model, kind);
            }
        }
        (_, None) => model.said = Some("there is nothing here to pause".to_owned()),
    }
}

/// The worst alert that nobody has acknowledged.
fn acknowledge(model: &mut Model) {
    match model.news.alerts.iter().find(|alert| alert.acked.is_none()) {
        Some(alert) => {
            let text = format!("acknowledge alert {}: {}?", alert.id, tame(&alert.what));
            let act = Act::Acknowledge(alert.id);
            ask(model, text, act);
        }
        None if model.news.alerts.is_empty() => model.said = Some("no alert stands".to_owned()),
        None => model.said = Some("every alert that stands is acknowledged".to_owned()),
    }
}

fn pause_type(model: &mut Model, kind: String) {
    let mut known = model.news.types.iter();
    let paused = known.any(|one| one.kind == kind && one.paused.is_some());
    let shown = tame(&kind);
    if paused {
        ask(model, format!("resume type {shown}?"), Act::ResumeType(kind));
    } else {
        let text = format!("pause type {shown}? nothing more of it starts, what runs goes on");
        ask(model, text, Act::PauseType(kind));
    }
}
