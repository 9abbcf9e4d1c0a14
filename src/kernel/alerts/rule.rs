//! What may be wrong: the rules, how bad each is, and what helps.

use crate::kernel::ids::Millis;
use crate::kernel::status::words;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

words! {
    /// How bad it is.
    Grade {
        /// Good to know; nobody needs to act.
        0 Info "info",
        /// Somebody should look at it, not at once.
        1 Warning "warning",
        /// Somebody should get up for it.
        2 Critical "critical",
    }
}

words! {
    /// What is wrong. With a subject it names an alert.
    Rule {
        /// Tasks of a type that belong to no schedule ended DEAD or FAILED; the subject is the type.
        0 TaskFailed "task_failed",
        /// Tasks of a schedule did; the subject is the schedule.
        1 ScheduleFailed "schedule_failed",
        /// A schedule has had no success for its period and half an hour.
        2 ScheduleSilent "schedule_silent",
        /// A worker was silent for too long, or died; the subject is its name.
        3 WorkerLost "worker_lost",
        /// An attempt makes no progress, or tells of none and runs much longer than others of its
        /// type; the subject is its task.
        4 TaskStalled "task_stalled",
        /// More and more tasks are due and are not run.
        5 BacklogGrowing "backlog_growing",
        /// Due tasks wait and no worker is alive.
        6 NoWorker "no_worker",
        /// The disk is nearly full, or full.
        7 DiskLow "disk_low",
        /// The tasks take nearly all that they may take together.
        8 StateFull "state_full",
        /// The wall clock was put forward or back.
        9 ClockStepped "clock_stepped",
        /// Damaged data of the journal was set aside.
        10 JournalDamaged "journal_damaged",
        /// A process of midwatch takes more and more memory, or has more and more threads; the
        /// subject is the process: `engine`, `supervisor`, `worker w1`.
        11 MemoryGrowing "memory_growing",
        /// A process of midwatch has more and more files open, or nearly as many as it may have.
        12 FilesGrowing "files_growing",
        /// A changed config was refused.
        13 ConfigRefused "config_refused",
        /// The supervisor tries a child only now and then, for it keeps ending; the subject is the
        /// child.
        14 ChildParked "child_parked",
        /// No file of the inbox becomes a task.
        15 InboxStopped "inbox_stopped",
        /// Ended tasks cannot be written to the archive.
        16 ArchiveFailing "archive_failing",
        /// A channel does not take notices; the subject is the channel.
        17 ChannelFailing "channel_failing",
        /// The store did not answer for a while.
        18 StoreStalled "store_stalled",
        /// There are more alerts than are kept.
        19 Overflow "overflow",
    }
}

impl Rule {
    /// What to do about it, in a sentence. `spec/alerts.md` prints the same.
    pub const fn action(self) -> &'static str {
        match self {
            Self::TaskFailed | Self::ScheduleFailed => {
                "read the log of the last attempt, mend the cause, then `midwatch retry ID`"
            }
            Self::ScheduleSilent => {
                "`midwatch schedule show NAME` says what became of its times; run it with `midwatch \
                 schedule trigger NAME`"
            }
            Self::WorkerLost => {
                "`midwatch workers` shows who is there; the daemon's log says how it ended"
            }
            Self::TaskStalled => {
                "`midwatch log ID -f` shows what it does; `midwatch reset ID` stops it and starts it \
                 over"
            }
            Self::BacklogGrowing => {
                "`midwatch list --status PENDING` shows what waits; add workers or slots, or pause \
                 what floods"
            }
            Self::NoWorker => "start workers: `midwatch daemon`, or `midwatch worker`",
            Self::DiskLow => "make room on the data directory's disk; no restart is needed",
            Self::StateFull => {
                "let waiting tasks run or cancel some, or raise `retention.max_state`"
            }
            Self::ClockStepped => {
                "see what set the clock (`timedatectl`, NTP); `midwatch schedule list` shows what it \
                 means for schedules"
            }
            Self::JournalDamaged => {
                "`midwatch-journal verify` and `midwatch-journal inspect`; keep what was set aside \
                 until you know what wrote it, and suspect the disk"
            }
            Self::MemoryGrowing => {
                "`midwatch status` shows what each process takes, and how to end this one: it loses \
                 nothing and is started anew, but tell the makers"
            }
            Self::FilesGrowing => {
                "`ls -l /proc/PID/fd` shows which; ended, it loses nothing and is started anew"
            }
            Self::ConfigRefused => {
                "`midwatch config check` names the line; what was in force stays"
            }
            Self::ChildParked => {
                "mend what ends it, then SIGHUP to the supervisor starts it at once"
            }
            Self::InboxStopped => "see to the directory's owner and mode; files wait meanwhile",
            Self::ArchiveFailing => "make the archive writable; ended tasks stay meanwhile",
            Self::ChannelFailing => {
                "see to its address and secret, then `midwatch alerts test NAME`"
            }
            Self::StoreStalled => "look at the disk (`dmesg`, `iostat -x 1`): a write hangs",
            Self::Overflow => "`midwatch alerts` shows those that are kept",
        }
    }

    /// Whether it is something that happened and not something that lasts: it is over by itself
    /// when it was not said again for so long.
    pub const fn fades(self) -> Option<Millis> {
        match self {
            Self::ClockStepped | Self::StoreStalled | Self::WorkerLost => Some(Millis::secs(3_600)),
            Self::TaskFailed
            | Self::ScheduleFailed
            | Self::ScheduleSilent
            | Self::TaskStalled
            | Self::BacklogGrowing
            | Self::NoWorker
            | Self::DiskLow
            | Self::StateFull
            | Self::JournalDamaged
            | Self::MemoryGrowing
            | Self::FilesGrowing
            | Self::ConfigRefused
            | Self::ChildParked
            | Self::InboxStopped
            | Self::ArchiveFailing
            | Self::ChannelFailing
            | Self::Overflow => None,
        }
    }

    /// Whether other words for what stands already are worth a record.
    pub(crate) const fn words_matter(self) -> bool {
        matches!(self, Self::ConfigRefused | Self::ChildParked)
    }
}
