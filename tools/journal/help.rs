//! What `--help` and the man pages teach below the options. A paragraph is one line: the screen folds
//! it.

pub(crate) const ALL: &str = "\
Exit codes:
  0  done; verify: all is good, or a crash cut the last write short (noted)
  1  a file cannot be read or written
  2  usage, or there is no store in the directory
  3  nothing is there: no such place, task or record, or no longer held
  6  damaged data: file, offset and sequence are named
  7  refused: in use, not permitted, or written by a newer midwatch
  8  verify: the end of the journal, or a snapshot, is suspicious

Examples:
  midwatch-journal verify /var/lib/midwatch
  midwatch-journal state --at '2h ago' --task 88213
  midwatch-journal dump --task 88213 | jq -c '[.seq, .at, .event, .to]'";

pub(crate) const INSPECT: &str = "\
Works on damaged stores too, and shows what can still be read of them.

Exit 0, 8 or 6 as verify; with --at 3 when nothing is there.

Examples:
  midwatch-journal inspect
  midwatch-journal inspect --at 4390
  midwatch-journal inspect --at 7:81920";

pub(crate) const VERIFY: &str = "\
Exit 0: good. A write that a crash cut short before it was answered is noted. Exit 8: the last write is there in full and wrong, or a snapshot is not whole; a start sets it aside. Exit 6: something that was durable is gone or changed; the place is named.

Examples:
  midwatch-journal verify && echo good
  midwatch-journal verify --json | jq .verdict";

pub(crate) const DUMP: &str = "\
Exit 0: all that was asked for was printed. Exit 6: what is before the damage was printed, and the damage is named; also when a body cannot be read: it is printed in hex.

Examples:
  midwatch-journal dump --task 88213
  midwatch-journal dump --from 4000 | jq -c 'select(.event == \"ended\")'";

pub(crate) const STATE: &str = "\
A time means the last record, in the order of sequence numbers, whose wall clock is not later. Where the clock was stepped back, earlier records may carry later times; the order is by sequence all the same.

A state is held from the snapshot on from which the journal goes on, or from the beginning where nothing was removed yet. Exit 3 for an earlier one; the earliest sequence and time are named.

Examples:
  midwatch-journal state --at 4390
  midwatch-journal state --at '2026-03-14 02:30' --task 88213
  midwatch-journal state --at '2h ago' --json | jq '.tasks | length'";

pub(crate) const STATS: &str = "\
Reads and checks everything, as verify does.

Examples:
  midwatch-journal stats /var/lib/midwatch
  midwatch-journal stats --json | jq .compaction_frees";

pub(crate) const COMPACT: &str = "\
Needs the lock: stop the daemon first. Everything is checked as verify does it, then replayed as a start does it. The new snapshot is written, synced, read back from the disk, and its digest compared; only then is anything removed. Tasks stay as they are, retention too: the digest is the same before and after. A crash at any moment leaves a store that starts. What is lost is the past: dump and state --at begin at the snapshot then.

Exit 7 while a daemon has the directory, 8 when something in it is suspicious.

Examples:
  midwatch-journal compact --dry-run
  midwatch-journal compact /var/lib/midwatch";

pub(crate) const FOLLOW: &str = "\
A record is shown when no crash can take it back any more: its file is synced before, which costs nothing where the daemon has done so. It waits while no daemon runs, and goes on over rotation, compaction and restarts. Where records were removed before they were shown, a note on stderr says which.

Exit 0 on SIGINT or SIGTERM.

Examples:
  midwatch-journal follow --from 1
  midwatch-journal follow | jq -c 'select(.event == \"ended\") | .task'";
