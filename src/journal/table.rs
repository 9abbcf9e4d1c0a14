//! The recovery table: what becomes of the bytes where the next frame is due in the last segment.
//!
//! Decided by proof, not by guess. A bad frame may be disregarded only when nothing shows that it
//! was once durable. `spec/recovery.md` prints the same rows; a test walks all combinations.

/// What is known about the place where a frame is due.
#[expect(clippy::struct_excessive_bools, reason = "the columns of a truth table")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// A whole frame with the due sequence is there.
    pub(super) intact: bool,
    /// Nothing but zeros up to the end of the file, or the end of the file.
    pub(super) blank: bool,
    /// A whole later frame says that it was written after everything before it was synced.
    pub(super) later_synced: bool,
    /// The floor, a snapshot or the header of the segment names this place or sequence as durable.
    pub(super) named: bool,
    /// The bad frame looks fully written: no sector of it is all zero or cut, no end mark lacks.
    pub(super) full: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Take the frame, go on.
    Keep,
    /// The journal ends here.
    End,
    /// The last write was cut short and never acknowledged: disregard it, report it.
    Torn,
    /// The last write is there in full, yet wrong: set it aside, raise an alarm.
    Suspicious,
    /// Something durable is gone or changed: refuse, change nothing.
    Damage,
    /// The facts contradict each other.
    Impossible,
}

/// One row: `None` stands for either value.
pub(super) struct Row {
    /// The row's letter in the documentation.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the test of the documentation"))]
    pub(super) letter: char,
    pub(super) intact: Option<bool>,
    pub(super) blank: Option<bool>,
    pub(super) later_synced: Option<bool>,
    pub(super) named: Option<bool>,
    pub(super) full: Option<bool>,
    pub(super) decision: Decision,
}

const fn row(letter: char, facts: [Option<bool>; 5], decision: Decision) -> Row {
    let [intact, blank, later_synced, named, full] = facts;
    Row { letter, intact, blank, later_synced, named, full, decision }
}

const YES: Option<bool> = Some(true);
const NO: Option<bool> = Some(false);
const ANY: Option<bool> = None;

/// The table. Each combination of facts matches exactly one row.
#[rustfmt::skip]
pub(super) const TABLE: [Row; 10] = [
    //         intact blank later named full
    row('A', [YES,    NO,   ANY,  ANY,  ANY], Decision::Keep),
    row('B', [NO,     YES,  NO,   NO,   NO ], Decision::End),
    row('C', [NO,     YES,  NO,   YES,  NO ], Decision::Damage),     // it was durable and is gone
    row('D', [NO,     NO,   NO,   NO,   NO ], Decision::Torn),
    row('E', [NO,     NO,   NO,   NO,   YES], Decision::Suspicious),
    row('F', [NO,     NO,   NO,   YES,  ANY], Decision::Damage),     // it was durable
    row('G', [NO,     NO,   YES,  ANY,  ANY], Decision::Damage),     // synced before a later frame
    row('X', [NO,     YES,  YES,  ANY,  NO ], Decision::Impossible), // a later frame is not blank
    row('Y', [NO,     YES,  ANY,  ANY,  YES], Decision::Impossible), // nor is a full one
    row('Z', [YES,    YES,  ANY,  ANY,  ANY], Decision::Impossible), // nor is a whole one
];

impl Row {
    pub(super) fn matches(&self, facts: Facts) -> bool {
        let fits = |wanted: Option<bool>, is| wanted.is_none_or(|wanted| wanted == is);
        fits(self.intact, facts.intact)
            && fits(self.blank, facts.blank)
            && fits(self.later_synced, facts.later_synced)
            && fits(self.named, facts.named)
            && fits(self.full, facts.full)
    }
}

/// The decision of the one row that matches.
pub(super) fn decide(facts: Facts) -> Decision {
    let row = TABLE.iter().find(|row| row.matches(facts));
    row.map_or(Decision::Impossible, |row| row.decision)
}

#[cfg(test)]
mod tests;
