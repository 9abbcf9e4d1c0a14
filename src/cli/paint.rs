//! Colour: only where a person looks, and never the only carrier of a meaning.

use crate::kernel::status::Status;

/// A colour or a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    /// The terminal's own.
    Plain,
    /// Headings and the first line.
    Bold,
    /// What matters least.
    Dim,
    /// Ended well.
    Green,
    /// Needs patience or a look.
    Yellow,
    /// Ended badly.
    Red,
    /// At work.
    Cyan,
}

/// Whether to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint(pub(crate) bool);

impl Paint {
    /// `text` in that ink, or as it is.
    pub(crate) fn with(self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Plain => return text.to_owned(),
            Ink::Bold => "1",
            Ink::Dim => "2",
            Ink::Green => "32",
            Ink::Yellow => "33",
            Ink::Red => "31",
            Ink::Cyan => "36",
        };
        if self.0 { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// The ink of a status.
pub(crate) const fn status_ink(status: Status) -> Ink {
    match status {
        Status::Pending => Ink::Plain,
        Status::Running => Ink::Cyan,
        Status::Retrying | Status::Lost => Ink::Yellow,
        Status::Success => Ink::Green,
        Status::Failed | Status::Dead => Ink::Red,
        Status::Paused | Status::Cancelled => Ink::Dim,
    }
}
