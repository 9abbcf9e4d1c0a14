//! The terminal: taken at the start, given back on every way out.

use super::draw;
use super::model::Model;
use super::page::Page;
use crate::cli::top::model::News;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use rustix::process::{Signal as ProcessSignal, getpid, kill_process};
use std::io::{self, Stdout};
use std::sync::mpsc::SyncSender;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What the main thread is told.
#[derive(Debug)]
pub(super) enum Told {
    /// A key, a paste, a new size.
    Event(Event),
    /// The terminal is gone.
    Gone,
    /// How things stand.
    News(Box<News>),
    /// The daemon did not answer, and why.
    Away(String),
    /// What came of an act.
    Acted(String),
    /// A page that was asked for.
    Page(Box<Page>),
    /// Somebody wants the program to stand still.
    Stop,
    /// Somebody wants the program to end.
    End,
}

/// The terminal while it is ours. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal. A panic gives it back before it says anything.
    pub(super) fn enter() -> io::Result<Self> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        take()?;
        match Terminal::new(CrosstermBackend::new(io::stdout())) {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Shows the model; only what differs from the last picture is written.
    pub(super) fn draw(&mut self, model: &mut Model) -> io::Result<()> {
        model.look_at_the_clock(crate::clock::wall());
        self.terminal.autoresize()?;
        let size = self.terminal.size()?;
        model.size = (size.width, size.height);
        self.terminal.draw(|frame| draw::draw(frame, model)).map(drop)
    }

    /// The next picture is written whole, whatever somebody else wrote over this one.
    pub(super) fn forget(&mut self) -> io::Result<()> {
        // The terminal's own way asks where the cursor is, and the answer comes among the keys.
        execute!(io::stdout(), Clear(ClearType::All))?;
        self.terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(())
    }

    /// Gives the terminal back, stands still until somebody continues the program, and takes it
    /// again.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        give_back();
        kill_process(getpid(), ProcessSignal::STOP)?;
        take()?;
        self.forget()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    let taken = execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste, Hide);
    if taken.is_err() {
        give_back();
    }
    taken
}

/// Nothing can be done about a terminal that does not listen any more.
fn give_back() {
    drop(execute!(io::stdout(), DisableBracketedPaste, LeaveAlternateScreen, Show));
    drop(disable_raw_mode());
}

/// Signals that would end or stop the program with the terminal as it is.
#[derive(Debug)]
pub(super) struct Signals {
    runtime: Runtime,
    end: [Signal; 3],
    stop: Signal,
}

impl Signals {
    /// Catches them from now on: to be called before the terminal is taken.
    pub(super) fn catch() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let within = runtime.enter();
        let end = [
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
            signal(SignalKind::interrupt())?,
        ];
        let stop = signal(SignalKind::from_raw(ProcessSignal::TSTP.as_raw()))?;
        drop(within);
        Ok(Self { runtime, end, stop })
    }

    /// Hands them on until nobody listens.
    pub(super) fn hand_on(self, to: &SyncSender<Told>) {
        let Self { runtime, end: [mut terminate, mut hang_up, mut interrupt], mut stop } = self;
        runtime.block_on(async {
            loop {
                let told = tokio::select! {
                    _ = terminate.recv() => Told::End,
                    _ = hang_up.recv() => Told::End,
                    _ = interrupt.recv() => Told::End,
                    _ = stop.recv() => Told::Stop,
                };
                if to.send(told).is_err() {
                    return;
                }
            }
        });
    }
}
