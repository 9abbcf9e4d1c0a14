//! The other story: a bell for each second of the night. One run takes too long, the daemon is
//! away for a while, and at the end every second is accounted for.

use super::DemoError;
use super::house::{House, utf8, write_files};
use super::proof::Finding;
use super::tell::{Tell, Tone};
use crate::api::{DecisionView, ScheduleActed, ScheduleView};
use crate::engine::codec;
use crate::journal::{Place, RealDisk, Record, Visitor, scan};
use crate::kernel::event::Event;
use crate::kernel::ids::{Seq, Timestamp};
use crate::kernel::schedule::{Passed, Passing};
use crate::units::{Zone, parse_rfc3339, span};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::Duration;

/// How often the story looks.
const LOOK_EVERY: Duration = Duration::from_millis(40);
/// It gives up then.
const GIVE_UP: Duration = Duration::from_secs(50);
/// How long the daemon is away.
const AWAY: Duration = Duration::from_secs(4);
/// Runs before it goes, and after it has come back.
const RUNS: u64 = 3;

/// The bell: notes for which second it rings. Its second run oversleeps.
const BELL: &str = "\
heard=$(cat \"$1\" 2>/dev/null | wc -l)
echo \"$MIDWATCH_SCHEDULED_FOR\" >>\"$1\"
if [ \"$heard\" -eq 1 ]; then sleep 2.6; fi
";

/// Writes what the story needs: the bell and the config.
pub(super) fn furnish(dir: &Path) -> io::Result<()> {
    let bell = dir.join("bell.sh");
    let command = ["/bin/sh".to_owned(), utf8(&bell)?, utf8(&dir.join("rung"))?];
    let command = toml::Value::try_from(command.to_vec()).map_err(io::Error::other)?;
    let config = format!(
        "[worker]\nprocesses = 1\nslots = 1\n\n[handlers.ring]\ncommand = {command}\n\n\
         [schedules.bell]\ntype = \"ring\"\ncron = \"* * * * * *\"\n"
    );
    write_files(&[(bell, BELL), (dir.join("midwatch.toml"), &config)])
}

pub(super) struct Story<'a, 'b> {
    tell: &'a mut Tell<'b>,
    house: &'a mut House,
    /// Decisions that were told, by their first planned time, and how long they were then.
    told: BTreeMap<String, u64>,
}

impl<'a, 'b> Story<'a, 'b> {
    pub(super) fn new(tell: &'a mut Tell<'b>, house: &'a mut House) -> Self {
        Self { tell, house, told: BTreeMap::new() }
    }

    /// Tells it from beginning to end; returns whether everything held.
    pub(super) fn run(mut self) -> Result<bool, DemoError> {
        self.prologue()?;
        let mut bell = self.until(|bell| RUNS <= bell.counts.fired && 2 <= bell.counts.skipped)?;
        // Who goes while the bell rings finds its seconds skipped: then it goes once more.
        while bell.counts.coalesced < 2 {
            self.until(|bell| bell.running.is_empty())?;
            self.be_away()?;
            let fired = bell.counts.fired + RUNS;
            bell = self.until(|bell| fired <= bell.counts.fired)?;
        }
        let findings = self.account(&bell)?;
        self.epilogue(&findings)
    }

    fn prologue(&mut self) -> Result<(), DemoError> {
        let place = self.house.dir().display().to_string();
        self.tell.line(Tone::Plain, &"midwatch demo: a bell for each second of the night")?;
        self.tell.gap()?;
        for line in [
            "  schedule  bell, `* * * * * *`, one run at once, what was missed coalesced"
                .to_owned(),
            "  plan      one run oversleeps; then the daemon goes home for a while".to_owned(),
            format!("  place     {place}"),
        ] {
            self.tell.line(Tone::Plain, &line)?;
        }
        self.tell.gap()?;
        let supervisor = self.house.supervisor();
        self.tell.event(Tone::Plain, &format_args!("midwatch daemon: supervisor {supervisor}"))
    }

    /// Tells what becomes of each second, until `enough`.
    fn until(&mut self, enough: impl Fn(&ScheduleView) -> bool) -> Result<ScheduleView, DemoError> {
        loop {
            if let Some(bell) = self.bell()? {
                for decision in &bell.recent {
                    self.tell_of(decision)?;
                }
                if enough(&bell) {
                    return Ok(bell);
                }
            }
            if GIVE_UP < self.tell.elapsed() {
                return Err(DemoError::new("finish in time", &"it was still going on"));
            }
            self.house.pass(LOOK_EVERY)?;
        }
    }

    /// The schedule as it is, or none because there is no engine to tell.
    fn bell(&self) -> Result<Option<ScheduleView>, DemoError> {
        match self.house.client().get("/v1/schedules/bell") {
            Ok(bell) => Ok(Some(bell)),
            Err(error) if error.is_passing() => Ok(None),
            Err(error) => Err(DemoError::new("look at its schedule", &error)),
        }
    }

    fn tell_of(&mut self, decision: &DecisionView) -> Result<(), DemoError> {
        let known = self.told.insert(decision.first.at.clone(), decision.count).unwrap_or(0);
        if decision.count <= known {
            return Ok(());
        }
        let task = decision.task.map(|task| task.0).unwrap_or_default();
        let clock =
            |at: &str| parse_rfc3339(at).map_or_else(|_| at.to_owned(), |at| Zone::Utc.time(at));
        let (first, last) = (clock(&decision.first.at), clock(&decision.last.at));
        let (outcome, count) = (decision.outcome.as_str(), decision.count);
        // Those behind the ones that were told already.
        let several = 1 < count - known;
        let when = if several { format!("{first} to {last}") } else { last };
        match outcome {
            "fired" => self.tell.event(Tone::Plain, &format_args!("{when}  fired, task {task}")),
            "skipped" => {
                let words = format_args!("{when}  skipped: task {task} is not over");
                self.tell.event(Tone::Bad, &words)
            }
            _ => {
                let words = format_args!("{when}  {count} {outcome} into task {task}");
                self.tell.event(Tone::Good, &words)
            }
        }
    }

    fn be_away(&mut self) -> Result<(), DemoError> {
        let end = self.house.stop()?;
        self.tell.event(Tone::Bad, &format_args!("the daemon was told to go, and went: {end}"))?;
        House::rest(AWAY)?;
        self.house.start()?;
        let away = AWAY.as_secs();
        self.tell.event(Tone::Good, &format_args!("{away} s later it is started again"))
    }

    /// The schedule's own words, and, once the daemon has gone, what is on disk.
    fn account(&mut self, bell: &ScheduleView) -> Result<Vec<Finding>, DemoError> {
        self.tell.gap()?;
        self.tell.line(Tone::Plain, &"$ midwatch schedule show bell")?;
        let shown = self.house.ask(&["schedule", "show", "bell"])?;
        let words = String::from_utf8_lossy(&shown.stdout).into_owned();
        for line in words.lines() {
            self.tell.line(Tone::Plain, &format_args!("  {line}").to_string().trim_end())?;
        }
        self.silence()?;
        let end = self.house.stop()?;
        let rung = self.house.read("rung");
        let passed = read(&self.house.dir().join("data"))?;
        let mut findings = vec![
            Finding::new(
                shown.status.success() && words.contains("the daemon was away from"),
                "the schedule says why: the run that was not over, the daemon's absence",
            ),
            Finding::new(end.success(), "the daemon drained and went: exit 0"),
            Finding::new(bell.counts.missed == 0, "nothing was so late that it was missed"),
        ];
        findings.extend(check(&passed, &rung));
        Ok(findings)
    }

    /// No more bells; the last one rings out.
    fn silence(&mut self) -> Result<(), DemoError> {
        let paused: Result<ScheduleActed, _> =
            self.house.client().post("/v1/schedules/bell/pause", &serde_json::json!({}));
        paused.map_err(|error| DemoError::new("pause its schedule", &error))?;
        self.until(|bell| bell.running.is_empty()).map(drop)
    }

    fn epilogue(&mut self, findings: &[Finding]) -> Result<bool, DemoError> {
        self.tell.gap()?;
        self.tell.line(Tone::Plain, &"the proof, from the journal and what the bell wrote")?;
        for Finding { holds, words } in findings {
            let (mark, tone) = if *holds { ("ok", Tone::Good) } else { ("NO", Tone::Bad) };
            self.tell.line(tone, &format_args!("  {mark}  {words}"))?;
        }
        let holds = findings.iter().all(|finding| finding.holds);
        if holds {
            self.tell.gap()?;
            let program = self.house.program();
            for line in ["schedule add --help", "schedule import-crontab --dry-run FILE"] {
                self.tell.line(Tone::Plain, &format_args!("  {program} {line}"))?;
            }
        }
        Ok(holds)
    }
}

/// What became of the planned times, in the order of the journal below `data`.
fn read(data: &Path) -> Result<Vec<Passed>, DemoError> {
    let doing = "read the journal";
    let disk = RealDisk::open(data).map_err(DemoError::io(doing))?;
    let mut reader = Reader(Vec::new());
    scan(&disk, &mut reader).map_err(|error| DemoError::new(doing, &error))?;
    Ok(reader.0)
}

struct Reader(Vec<Passed>);

impl Visitor for Reader {
    fn record(&mut self, place: Place<'_>, record: Record<'_>) -> Result<(), String> {
        let decoded = codec::decode(Seq(place.seq), record.kind, record.body);
        if let Event::Fired(fired) = decoded.map_err(|error| error.to_string())?.1 {
            self.0.extend(fired.passed);
        }
        Ok(())
    }
}

/// Every second from the first to the last was decided once, and the bell rang for those that were
/// fired and for no other.
fn check(passed: &[Passed], rung: &str) -> [Finding; 2] {
    let mut seconds: BTreeMap<Timestamp, (u32, Passing)> = BTreeMap::new();
    for Passed { first, last, passing, .. } in passed {
        for at in (first.0..=last.0).step_by(1000) {
            let second = seconds.entry(Timestamp(at)).or_insert((0, *passing));
            second.0 += 1;
        }
    }
    let of = |wanted: Passing| seconds.values().filter(|(_, passing)| *passing == wanted).count();
    let (fired, coalesced) = (of(Passing::Fired), of(Passing::Coalesced));
    let skipped = of(Passing::Skipped);
    let stretch = match (seconds.first_key_value(), seconds.last_key_value()) {
        (Some((first, _)), Some((last, _))) => last.since(*first),
        _ => crate::kernel::ids::Millis(0),
    };
    let all = usize::try_from(stretch.0 / 1000).unwrap_or(0) + 1;
    let once = seconds.values().all(|(times, _)| *times == 1);
    let each = once && seconds.len() == all && fired + coalesced + skipped == all;
    // Who is told to go in the middle of a run does it again.
    let heard: BTreeSet<_> = rung.lines().filter_map(|line| parse_rfc3339(line).ok()).collect();
    let meant = seconds.iter().filter(|(_, (_, passing))| *passing == Passing::Fired);
    let meant: BTreeSet<_> = meant.map(|(at, _)| *at).collect();
    let shown = span(stretch);
    [
        Finding::new(
            each && 2 <= coalesced && 2 <= skipped,
            format!(
                "{all} seconds in {shown}, each decided once: \
                 {fired} fired, {coalesced} coalesced, {skipped} skipped"
            ),
        ),
        Finding::new(
            heard == meant,
            format!("the bell rang for {} seconds, those that were fired", heard.len()),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::rfc3339;

    fn passed(first: u64, last: u64, passing: Passing) -> Passed {
        let (first, last) = (Timestamp(first * 1000), Timestamp(last * 1000));
        Passed { first, last, count: 1, passing, task: None, more: None }
    }

    #[test]
    fn an_account_with_a_hole_a_second_twice_or_a_bell_too_many_does_not_hold() {
        let good = [
            passed(1, 1, Passing::Fired),
            passed(2, 3, Passing::Skipped),
            passed(4, 6, Passing::Coalesced),
            passed(7, 7, Passing::Fired),
        ];
        let line = |second: u64| format!("{}\n", rfc3339(Timestamp(second * 1000)));
        let rung = line(1) + &line(7);
        let holds = |passed: &[Passed], rung: &str| check(passed, rung).map(|it| it.holds);
        assert_eq!(holds(&good, &rung), [true, true]);
        assert_eq!(holds(&good[..3], &line(1)), [true, true]);
        let hole = [good[0].clone(), good[2].clone(), good[3].clone()];
        assert!(!holds(&hole, &rung)[0]);
        let twice = [&good[..], &[passed(7, 7, Passing::Fired)]].concat();
        assert!(!holds(&twice, &rung)[0]);
        assert_eq!(holds(&good, &line(1)), [true, false]);
        assert_eq!(holds(&good, &(rung + &line(8))), [true, false]);
        assert!(!holds(&[], "")[0]);
    }
}
