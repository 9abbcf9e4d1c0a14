//! `midwatch top`: what runs, waits and has ended, on one screen that keeps up.
//!
//! Four threads and one queue: one reads the keys, one hears signals, one asks the daemon and does
//! what was asked for, and the main one keeps the [`Model`] and draws it. Nothing but the main
//! thread touches the screen, so a daemon that does not answer never stands in the way of a key.
//!
//! It shows what the daemon tells and decides nothing; what it changes, it asks about first.

mod ask;
mod attention;
mod draw;
mod keys;
mod lists;
mod model;
mod page;
mod rates;
mod screen;
#[cfg(test)]
pub(super) mod tests;

use super::failure::{Failure, exit};
use super::session::{Format, Session};
use super::socket::{self, Warn};
use ask::{Asker, Order};
use keys::Wish;
use model::Model;
use ratatui::crossterm::event::{self, Event};
use screen::{Screen, Signals, Told};
use std::io::{self, IsTerminal};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// What to show.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Begin with only what has this text in it
    #[arg(value_name = "TEXT")]
    filter: Option<String>,
}

/// What may wait for the main thread; then keys wait in the terminal, and news are not asked for.
const WAITING_MAX: usize = 64;

/// Shows it until somebody has seen enough.
pub(crate) fn run(args: &Args, session: &Session<'_>) -> Result<u8, Failure> {
    fit_for_a_screen(session)?;
    // A daemon that is not there is told as any command tells it, before the screen is taken.
    let first = ask::look(session.api, None)?;
    let mut model = Model::new(session.view, first);
    model.filter = args.filter.clone().unwrap_or_default();
    let (to, told) = sync_channel(WAITING_MAX);
    let (order, orders) = sync_channel(WAITING_MAX);
    let (named, around) = (session.named.clone(), session.environment.surroundings.clone());
    let api = socket::Daemon::new(named, around, Warn::Never);
    let mut asker = Asker::new(to.clone(), model.seq());
    start("ask", move || asker.run(&api, &orders))?;
    let (signals, heard) = (Signals::catch().map_err(|error| no_screen(&error))?, to.clone());
    start("signals", move || signals.hand_on(&heard))?;
    let mut screen = Screen::enter().map_err(|error| no_screen(&error))?;
    start("keys", move || read_keys(&to))?;
    keep_up(&mut model, &mut screen, &told, &order)
}

/// Whether there is a terminal to draw on, and nobody asked for something else.
fn fit_for_a_screen(session: &Session<'_>) -> Result<(), Failure> {
    let other = "midwatch status";
    if session.format != Format::Table {
        return Err(Failure::usage("`midwatch top` is a screen for people, and has no JSON")
            .with_help(format!("the figures for programs: {other} --json"))
            .with_help("what happens, line by line: midwatch watch --json"));
    }
    if !io::stdout().is_terminal() {
        return Err(Failure::usage("`midwatch top` needs a terminal on standard output")
            .with_help(format!("the same once, as text: {other}")));
    }
    if session.environment.dumb {
        return Err(Failure::usage(
            "`midwatch top` needs a terminal with a cursor; TERM is `dumb`",
        )
        .with_help(format!("the same once, as text: {other}")));
    }
    Ok(())
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    started
        .map(drop)
        .map_err(|error| Failure::new(exit::FAILED, format!("cannot start a thread: {error}")))
}

fn no_screen(error: &io::Error) -> Failure {
    Failure::new(exit::FAILED, format!("the terminal cannot be used: {error}"))
        .with_help("the same once, as text: midwatch status")
}

/// Hands keys on until the terminal is gone.
fn read_keys(to: &SyncSender<Told>) {
    loop {
        let told = match event::read() {
            Ok(event) => Told::Event(event),
            Err(_) => Told::Gone,
        };
        let gone = matches!(told, Told::Gone);
        if to.send(told).is_err() || gone {
            return;
        }
    }
}

/// Draws, waits for something, takes it up, and so on.
fn keep_up(
    model: &mut Model,
    screen: &mut Screen,
    told: &Receiver<Told>,
    orders: &SyncSender<Order>,
) -> Result<u8, Failure> {
    loop {
        screen.draw(model).map_err(|error| no_screen(&error))?;
        // All senders gone means that the threads are; there is nothing more to show.
        let Ok(first) = told.recv() else { return Ok(exit::DONE) };
        // What has piled up meanwhile is one picture, not many.
        for told in std::iter::once(first).chain(told.try_iter()) {
            match take_up(told, model) {
                Some(Wish::Quit) => return Ok(exit::DONE),
                Some(Wish::Suspend) => screen.suspend().map_err(|error| no_screen(&error))?,
                Some(Wish::Redraw) => screen.forget().map_err(|error| no_screen(&error))?,
                Some(Wish::Order(order)) => {
                    let busy = || "the daemon is busy with what was asked before".to_owned();
                    model.said = orders.try_send(order).err().map(|_full| busy());
                }
                None => {}
            }
        }
    }
}

/// Takes one thing up; what somebody wants then.
fn take_up(told: Told, model: &mut Model) -> Option<Wish> {
    match told {
        Told::Event(Event::Key(key)) => return keys::press(model, key),
        Told::Event(Event::Paste(text)) => keys::paste(model, &text),
        // The next picture is of the new size.
        Told::Event(_) => {}
        Told::News(news) => model.take(*news),
        Told::Away(why) => model.lose(crate::clock::wall(), why),
        Told::Acted(said) => model.said = Some(said),
        Told::Page(page) => model.open(*page),
        Told::Stop => return Some(Wish::Suspend),
        Told::End | Told::Gone => return Some(Wish::Quit),
    }
    None
}
