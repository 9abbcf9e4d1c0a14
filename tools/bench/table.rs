//! Rounds in, a table of medians and ratios out.

/// What one load came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// Operations a second.
    pub(crate) rate: f64,
    /// Median time of one, in microseconds.
    pub(crate) p50: f64,
    /// Time that one in a hundred exceeds, in microseconds.
    pub(crate) p99: f64,
}

impl Round {
    /// From so many operations that took so long together.
    pub(crate) fn once(count: u64, seconds: f64) -> Self {
        let each = seconds * 1e6 / float(count);
        Self { rate: float(count) / seconds, p50: each, p99: each }
    }

    /// From the times of single operations, in nanoseconds, and the seconds they took together.
    pub(crate) fn of(mut times: Vec<u64>, done: u64, seconds: f64) -> Self {
        times.sort_unstable();
        let at = |place: usize| times.get(place).copied().unwrap_or(0);
        let (p50, p99) = (at(times.len() / 2), at(times.len().saturating_sub(1) * 99 / 100));
        Self { rate: float(done) / seconds, p50: float(p50) / 1e3, p99: float(p99) / 1e3 }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count of operations is far below 2^52")]
pub(crate) fn float(number: u64) -> f64 {
    number as f64
}

/// The rounds of several systems.
pub(crate) struct Table {
    title: String,
    rows: Vec<(String, Vec<Round>)>,
}

/// The system that the others are compared with.
pub(crate) const OURS: &str = "midwatch";

impl Table {
    pub(crate) const fn new(title: String) -> Self {
        Self { title, rows: Vec::new() }
    }

    pub(crate) fn add(&mut self, name: &str, round: Round) {
        match self.rows.iter_mut().find(|(known, _)| known == name) {
            Some((_, rounds)) => rounds.push(round),
            None => self.rows.push((name.to_owned(), vec![round])),
        }
    }

    /// The rates of one system, round by round.
    pub(crate) fn rates_of(&self, name: &str) -> Vec<f64> {
        let rows = self.rows.iter().filter(|(known, _)| known == name);
        rows.flat_map(|(_, rounds)| rounds.iter().map(|round| round.rate)).collect()
    }

    pub(crate) fn print(&self) {
        println!("\n{}", self.title);
        let head = ["per second", "p50 µs", "our rate ÷ its", "our p50 ÷ its"];
        let [rate, p50, rates, p50s] = head;
        println!("  {:<45} {rate:>22} {p50:>22} {rates:>18} {p50s:>18}", "");
        let ours = self.rows.iter().find(|(name, _)| name == OURS).map(|(_, rounds)| rounds);
        for (name, rounds) in &self.rows {
            let of = |pick: fn(&Round) -> f64| rounds.iter().map(pick).collect::<Vec<_>>();
            let rate = spread(of(|round| round.rate), 0);
            let p50 = spread(of(|round| round.p50), 0);
            let ratio = |pick: fn(&Round) -> f64| match ours {
                Some(ours) if name != OURS => {
                    let pairs = ours.iter().zip(rounds);
                    spread(pairs.map(|(our, its)| pick(our) / pick(its)).collect(), 2)
                }
                _ => String::new(),
            };
            let (rates, p50s) = (ratio(|round| round.rate), ratio(|round| round.p50));
            println!("  {name:<45} {rate:>22} {p50:>22} {rates:>18} {p50s:>18}");
        }
    }
}

/// The median, and the least and the most.
pub(crate) fn spread(mut values: Vec<f64>, digits: usize) -> String {
    values.sort_by(f64::total_cmp);
    let median = values.get(values.len() / 2).copied().unwrap_or(0.0);
    let (least, most) = (values.first().copied(), values.last().copied());
    let (least, most) = (least.unwrap_or(0.0), most.unwrap_or(0.0));
    format!("{median:.digits$} ({least:.digits$}–{most:.digits$})")
}
