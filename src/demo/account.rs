//! What the journal says when everybody is gone: read as `midwatch-journal` reads it, record by
//! record, changing nothing.

use super::DemoError;
use super::proof::Finding;
use crate::engine::codec;
use crate::journal::{Place, RealDisk, Record, Report, Visitor, scan};
use crate::kernel::event::Event;
use crate::kernel::ids::{Fence, Seq, TaskId};
use crate::units::count;
use std::path::Path;

/// A checkpoint, as its record has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checkpoint {
    pub(super) seq: Seq,
    pub(super) fence: Fence,
    pub(super) data: String,
}

/// What was found about one task.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) checkpoints: Vec<Checkpoint>,
    engines: usize,
    report: Report,
}

impl Account {
    /// Reads the journal below `data`. Damage is an error.
    pub(super) fn read(data: &Path, task: TaskId) -> Result<Self, DemoError> {
        let doing = "read the journal";
        let disk = RealDisk::open(data).map_err(DemoError::io(doing))?;
        let mut reader = Reader { task, checkpoints: Vec::new(), engines: 0 };
        let report = scan(&disk, &mut reader).map_err(|error| DemoError::new(doing, &error))?;
        let Reader { checkpoints, engines, .. } = reader;
        Ok(Self { checkpoints, engines, report })
    }

    /// What must hold of it, after `batches` batches and one murder of an engine.
    pub(super) fn findings(&self, batches: usize) -> [Finding; 2] {
        let report = &self.report;
        let (records, engines) = (count(report.records), self.engines);
        // A worker whose call was cut off says it again, so one checkpoint may have two records.
        let mut steps: Vec<_> = self.checkpoints.iter().map(|it| it.data.as_str()).collect();
        steps.dedup();
        let found = steps.len();
        [
            Finding::new(
                report.exit_code() == 0 && report.clean_close && engines == 2,
                format!("{records} records by {engines} engines, every checksum right"),
            ),
            Finding::new(
                found == batches && self.checkpoints.is_sorted_by_key(|it| (it.seq, it.fence)),
                format!("{found} checkpoints for {batches} batches, in their order"),
            ),
        ]
    }
}

struct Reader {
    task: TaskId,
    checkpoints: Vec<Checkpoint>,
    engines: usize,
}

impl Visitor for Reader {
    fn record(&mut self, place: Place<'_>, record: Record<'_>) -> Result<(), String> {
        let decoded = codec::decode(Seq(place.seq), record.kind, record.body);
        match decoded.map_err(|error| error.to_string())?.1 {
            Event::Checkpointed(event) if event.task == self.task => {
                let (seq, data) = (Seq(place.seq), event.data.to_string());
                self.checkpoints.push(Checkpoint { seq, fence: event.fence, data });
            }
            Event::Started(_) => self.engines += 1,
            _ => {}
        }
        Ok(())
    }
}
