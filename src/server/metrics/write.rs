//! The metrics as text: each with its help, its unit and its labels.

use super::collect::{ScheduleSight, Sheet, Sight};
use crate::api::ProcessView;
use crate::journal::SYNC_BOUNDS;
use crate::kernel::figures::histogram::BOUNDS;
use crate::kernel::figures::{Histogram, Sums, TypeFigures};
use crate::kernel::ids::Timestamp;
use crate::server::status::Figures;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use std::collections::BTreeMap;
use std::fmt;

type Written = Result<(), fmt::Error>;

impl Collector for Sheet {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Written {
        let mut page = Page(encoder);
        if let Some(facts) = &self.facts {
            facts.of_types(&mut page)?;
            facts.of_tasks(&mut page)?;
            of_schedules(facts, &mut page)?;
            of_workers(facts, &mut page)?;
            facts.of_the_journal(&mut page)?;
            facts.of_the_state(&mut page)?;
        }
        self.of_syncs(&mut page)?;
        self.of_the_house(&mut page)?;
        self.of_the_processes(&mut page)
    }
}

/// A figure of a process.
type ProcessFigure = fn(&ProcessView) -> u64;

/// The page that is written, a metric at a time.
struct Page<'a>(DescriptorEncoder<'a>);

/// Seconds, as Prometheus has all times.
#[expect(clippy::cast_precision_loss, reason = "a float is what is written")]
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "a float is what is written")]
fn float(number: u64) -> f64 {
    number as f64
}

impl Page<'_> {
    fn metric(
        &mut self,
        (name, help, unit): (&str, &str, Option<Unit>),
        kind: MetricType,
        write: impl FnOnce(MetricEncoder<'_>) -> Written,
    ) -> Written {
        write(self.0.encode_descriptor(name, help, unit.as_ref(), kind)?)
    }

    /// A gauge without labels.
    fn gauge(&mut self, about: (&str, &str, Option<Unit>), value: f64) -> Written {
        self.metric(about, MetricType::Gauge, |mut metric| metric.encode_gauge(&value))
    }

    /// A counter without labels.
    fn counter(&mut self, about: (&str, &str, Option<Unit>), value: u64) -> Written {
        self.metric(about, MetricType::Counter, |mut metric| count(&mut metric, value))
    }

    /// A gauge for each value of a label.
    fn gauges<'v>(
        &mut self,
        about: (&str, &str, Option<Unit>),
        label: &'static str,
        values: impl Iterator<Item = (&'v str, f64)>,
    ) -> Written {
        self.metric(about, MetricType::Gauge, |mut metric| {
            for (name, value) in values {
                metric.encode_family(&[(label, name)])?.encode_gauge(&value)?;
            }
            Ok(())
        })
    }

    /// A histogram of milliseconds for each value of a label, told in seconds.
    fn histograms<'v>(
        &mut self,
        (name, help): (&str, &str),
        label: &'static str,
        values: impl Iterator<Item = (&'v str, &'v Histogram)>,
    ) -> Written {
        let about = (name, help, Some(Unit::Seconds));
        self.metric(about, MetricType::Histogram, |mut metric| {
            for (name, histogram) in values {
                let counted = |place: usize| histogram.buckets.get(place).copied().unwrap_or(0);
                let bounds = BOUNDS.iter().map(|bound| seconds(*bound));
                let bounds = bounds.chain([f64::INFINITY]).enumerate();
                let buckets: Vec<_> = bounds.map(|(place, le)| (le, counted(place))).collect();
                let labels = [(label, name)];
                let mut metric = metric.encode_family(&labels)?;
                let (sum, total) = (seconds(histogram.sum), histogram.total());
                metric.encode_histogram::<NoLabelSet>(sum, total, &buckets, None)?;
            }
            Ok(())
        })
    }
}

fn count(metric: &mut MetricEncoder<'_>, value: u64) -> Written {
    metric.encode_counter::<NoLabelSet, u64, f64>(&value, None)
}

/// A counter of the sums, with its help.
type Sum = (&'static str, &'static str, fn(&Sums) -> u64);

const SUMS: &[Sum] = &[
    ("tasks_created", "Tasks that were submitted.", |sums| sums.created),
    ("attempts_retried", "Failed attempts that are followed by another one.", |sums| sums.retried),
    ("attempts_lost", "Attempts whose executor was lost.", |sums| sums.lost),
    ("attempts", "Attempts that were leased.", |sums| sums.attempts),
];

/// An end of tasks, and how often it was.
type End = (&'static str, fn(&Sums) -> u64);

const ENDS: &[End] = &[
    ("success", |sums| sums.succeeded),
    ("failed", |sums| sums.failed),
    ("dead", |sums| sums.dead),
    ("cancelled", |sums| sums.cancelled),
];

impl Sight {
    fn types(&self) -> impl Iterator<Item = &TypeFigures> {
        self.figures.types.values().map(|figures| &**figures)
    }

    fn of_types(&self, page: &mut Page<'_>) -> Written {
        for (name, help, sum) in SUMS {
            page.metric((name, help, None), MetricType::Counter, |mut metric| {
                for it in self.types() {
                    let labels = [("type", &*it.kind)];
                    count(&mut metric.encode_family(&labels)?, sum(&it.ever.sums))?;
                }
                Ok(())
            })?;
        }
        let help = "Tasks that ended, by the status they ended in.";
        page.metric(("tasks_ended", help, None), MetricType::Counter, |mut metric| {
            for it in self.types() {
                for (end, sum) in ENDS {
                    let labels = [("type", &*it.kind), ("status", *end)];
                    count(&mut metric.encode_family(&labels)?, sum(&it.ever.sums))?;
                }
            }
            Ok(())
        })?;
        let waits = self.types().map(|it| (&*it.kind, &it.ever.wait));
        page.histograms(("wait", "From when a task is due until it starts."), "type", waits)?;
        let runs = self.types().map(|it| (&*it.kind, &it.ever.run));
        page.histograms(("run", "How long attempts run."), "type", runs)?;
        let all = &self.figures.all;
        let waits = [
            ("urgent", &all.wait_urgent),
            ("ordinary", &all.wait_ordinary),
            ("patient", &all.wait_patient),
        ];
        let help = "The same by priority: below 100, 100, above.";
        page.histograms(("wait_by_priority", help), "priority", waits.into_iter())?;
        let standing = self.standing.iter();
        let waiting = standing.clone().map(|(kind, waiting, _)| (&**kind, float(*waiting)));
        let about = ("tasks_waiting", "Tasks that wait, due or not.", None);
        page.gauges(about, "type", waiting)?;
        let running = standing.map(|(kind, _, running)| (&**kind, float(*running)));
        page.gauges(("tasks_running", "Tasks that hold a lease.", None), "type", running)?;
        self.of_last_ends(page)
    }

    fn of_last_ends(&self, page: &mut Page<'_>) -> Written {
        let last = |it: Option<Timestamp>| it.map(|at| seconds(at.0));
        let successes = self.types().filter_map(|it| Some((&*it.kind, last(it.last_success)?)));
        let help = "When a task of the type last ended in SUCCESS, since 1970.";
        let about = ("last_success_timestamp", help, Some(Unit::Seconds));
        page.gauges(about, "type", successes)?;
        let failures = self.types().filter_map(|it| Some((&*it.kind, last(it.last_failure)?)));
        let help = "When a task of the type last ended in FAILED or DEAD, since 1970.";
        let about = ("last_failure_timestamp", help, Some(Unit::Seconds));
        page.gauges(about, "type", failures)?;
        let in_a_row = self.types().map(|it| (&*it.kind, float(u64::from(it.failures))));
        let help = "Tasks of the type that ended in FAILED or DEAD without a SUCCESS between.";
        page.gauges(("failures_in_a_row", help, None), "type", in_a_row)
    }

    fn of_tasks(&self, page: &mut Page<'_>) -> Written {
        let statuses = self.statuses.iter().map(|(status, it)| (status.word(), float(*it)));
        page.gauges(("tasks", "Tasks that are kept, by status.", None), "status", statuses)?;
        page.gauge(("backlog", "Tasks that are due and wait.", None), float(self.due))?;
        let help = "How long the oldest of them has been due.";
        let age = self.now.oldest_waiting.unwrap_or_default();
        page.gauge(("backlog_age", help, Some(Unit::Seconds)), seconds(age.0))?;
        let account = &self.consistency;
        let help = "1 while every task that was taken has exactly one end or is live, and no \
                    attempt ran another input.";
        page.gauge(("account_ok", help, None), f64::from(u8::from(account.ok)))?;
        let help = "Attempts that ran another input than the one that was submitted.";
        page.counter(("attempts_wrong_input", help, None), account.wrong_input)?;
        let triggers = &self.figures.all.triggers;
        let help = "Planned times for which a run was made.";
        page.counter(("triggers_fired", help, None), triggers.fired)?;
        let help = "Of these, at most five seconds late.";
        page.counter(("triggers_on_time", help, None), triggers.on_time)?;
        let help = "Planned times that were missed, skipped or replaced.";
        page.counter(("triggers_without_run", help, None), triggers.without_run)
    }

    fn of_the_journal(&self, page: &mut Page<'_>) -> Written {
        let stats = &self.journal;
        page.gauge(("journal_segments", "Segments on disk.", None), float(stats.segments))?;
        page.gauge(("journal", "Size of them.", Some(Unit::Bytes)), float(stats.bytes))?;
        page.gauge(("journal_sequence", "The last record.", None), float(self.seq.0))?;
        let help = "Records written since the start.";
        page.counter(("journal_records", help, None), stats.records)?;
        let help = "Frames written since the start, each with one sync as the policy has it.";
        page.counter(("journal_frames", help, None), stats.frames)?;
        let help = "Written for them since the start, padding included.";
        page.counter(("journal_written", help, Some(Unit::Bytes)), stats.written_bytes)
    }

    fn of_the_state(&self, page: &mut Page<'_>) -> Written {
        let help = "What the tasks take of `retention.max_state`.";
        page.gauge(("state", help, Some(Unit::Bytes)), float(self.state_bytes))?;
        let help = "What they may take.";
        page.gauge(("state_max", help, Some(Unit::Bytes)), float(self.state_bytes_max))?;
        let help = "How often the wall clock was put forward or back.";
        page.counter(("clock_steps", help, None), self.clock_steps)?;
        let help = "1 while the wall clock is not believed, and schedules by the calendar wait.";
        page.gauge(("clock_held", help, None), f64::from(u8::from(self.clock_held)))?;
        let alerts = ["info", "warning", "critical"].into_iter().zip(self.alerts.map(float));
        page.gauges(("alerts", "Alerts that stand, by level.", None), "grade", alerts)
    }
}

impl Sheet {
    fn of_syncs(&self, page: &mut Page<'_>) -> Written {
        let help = "How long syncs of journal and snapshots take.";
        page.metric(("sync", help, Some(Unit::Seconds)), MetricType::Histogram, |mut metric| {
            let bounds = SYNC_BOUNDS.iter().map(|bound| float(*bound) / 1e6);
            let bounds = bounds.chain([f64::INFINITY]);
            let buckets: Vec<_> = bounds.zip(self.sync_buckets).collect();
            let total = self.sync_buckets.iter().sum();
            let sum = float(self.sync_sum_micros) / 1e6;
            metric.encode_histogram::<NoLabelSet>(sum, total, &buckets, None)
        })?;
        let help = "How long the last start took to read the journal.";
        page.gauge(("replay", help, Some(Unit::Seconds)), seconds(self.replay.0))
    }

    /// midwatch's own processes, by name; two of one name are told as one that is as large as both.
    fn of_the_processes(&self, page: &mut Page<'_>) -> Written {
        let figures: [(&str, &str, Option<Unit>, ProcessFigure); 4] = [
            ("process_memory", "Memory of our own processes.", Some(Unit::Bytes), |it| it.memory),
            ("process_threads", "Threads of them.", None, |it| it.threads),
            ("process_open_files", "Open descriptors of them.", None, |it| {
                it.open_files.unwrap_or(0)
            }),
            ("process_growing", "1 for each that keeps growing, else 0.", None, |it| {
                u64::from(!it.growing.is_empty())
            }),
        ];
        for (name, help, unit, figure) in figures {
            let mut by_name = BTreeMap::<_, u64>::new();
            for it in &self.processes {
                *by_name.entry(it.name.as_str()).or_default() += figure(it);
            }
            let values = by_name.into_iter().map(|(name, value)| (name, float(value)));
            page.gauges((name, help, unit), "process", values)?;
        }
        Ok(())
    }

    fn of_the_house(&self, page: &mut Page<'_>) -> Written {
        let help = "How long the store has not answered, 0 while it does.";
        page.gauge(("stalled", help, Some(Unit::Seconds)), seconds(self.stalled.0))?;
        if let Some(free) = self.disk_free {
            let help = "Free on the data directory's disk.";
            page.gauge(("disk_free", help, Some(Unit::Bytes)), float(free))?;
        }
        let help = "How long the engine has been serving.";
        page.gauge(("uptime", help, Some(Unit::Seconds)), seconds(self.uptime.0))?;
        let help = "1 while the config's last reading was taken, 0 after one that was refused.";
        page.gauge(("config_reload_ok", help, None), f64::from(u8::from(self.config_is_ok)))?;
        let help = "The version that runs.";
        page.metric(("build", help, None), MetricType::Info, |mut metric| {
            metric.encode_info(&[("version", self.version.as_str())])
        })
    }
}

fn of_schedules(facts: &Sight, page: &mut Page<'_>) -> Written {
    let what = [
        ("fired", (|it| it.counts.fired) as fn(&ScheduleSight) -> u64),
        ("coalesced", |it| it.counts.coalesced),
        ("skipped", |it| it.counts.skipped),
        ("missed", |it| it.counts.missed),
    ];
    let help = "Planned times, by what became of them.";
    page.metric(("schedule_times", help, None), MetricType::Counter, |mut metric| {
        for it in &facts.schedules {
            for (passing, number) in &what {
                let labels = [("schedule", &*it.name), ("passing", *passing)];
                count(&mut metric.encode_family(&labels)?, number(it))?;
            }
        }
        Ok(())
    })?;
    let schedules = facts.schedules.iter();
    let failures = schedules.clone().map(|it| (&*it.name, float(it.failures)));
    let help = "Runs that ended otherwise than in SUCCESS since one did.";
    page.gauges(("schedule_failures_in_a_row", help, None), "schedule", failures)?;
    let at = |at: Option<Timestamp>| at.map(|at| seconds(at.0));
    let successes = schedules.clone().filter_map(|it| Some((&*it.name, at(it.last_success)?)));
    let help = "When a run last ended in SUCCESS, since 1970.";
    let about = ("schedule_last_success_timestamp", help, Some(Unit::Seconds));
    page.gauges(about, "schedule", successes)?;
    let next = schedules.filter_map(|it| Some((&*it.name, at(it.next)?)));
    let help = "The next planned time, since 1970.";
    let about = ("schedule_next_timestamp", help, Some(Unit::Seconds));
    page.gauges(about, "schedule", next)
}

fn of_workers(facts: &Sight, page: &mut Page<'_>) -> Written {
    let Figures { alive, suspect, offline, slots, busy, .. } = facts.now;
    let workers = [("alive", alive), ("suspect", suspect), ("offline", offline)];
    let workers = workers.into_iter().map(|(standing, count)| (standing, float(count.into())));
    page.gauges(("workers", "Workers, by standing.", None), "standing", workers)?;
    let help = "Attempts that the workers can run at once, those that are offline left out.";
    page.gauge(("slots", help, None), float(slots.into()))?;
    page.gauge(("slots_busy", "Attempts that they hold.", None), float(busy.into()))
}
