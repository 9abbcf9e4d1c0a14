//! Screens for who has the facts from elsewhere than a daemon: the journal tool shows a state of the
//! past as `midwatch list`, `workers` and `history` show the present one.

use super::environment::Environment;
use super::paint::Paint;
use super::session::View;
use super::{history, list};
use crate::api::{History, TaskList, TaskView};
use crate::kernel::ids::Timestamp;
use crate::units::Zone;

/// A screen on which it is always `now`, without colour.
#[derive(Clone, Copy, Debug)]
pub struct Screen(View);

impl Screen {
    /// The screen of this process.
    pub fn at(now: Timestamp, zone: Zone) -> Self {
        let width = super::screen_width(&Environment::read());
        Self(View { now, zone, width, paint: Paint(false), absolute: false })
    }

    /// A table of tasks.
    pub fn tasks(&self, tasks: Vec<TaskView>) -> String {
        list::render(&TaskList { tasks, next: None, total: 0 }, &self.0)
    }

    /// The whole life of one task.
    pub fn history(&self, of: &History) -> String {
        history::render(of, &self.0)
    }
}
