//! `[dispatch]`: who goes next.

use super::fault::Fault;
use super::read::{Reader, Table, duration, integer, kind, list, signed};
use super::{Dispatch, Worker, keys};
use crate::kernel::ids::Millis;
use crate::kernel::rules::Reserve;
use toml::de::DeValue;

/// A task may be promised to wait so long at most, a year.
const PROMOTE_AFTER_MAX: Millis = Millis::secs(365 * 24 * 3600);

/// Most slots that one entry keeps.
const RESERVED_MAX: u32 = 1_000_000;

pub(super) fn read_dispatch<'t>(
    reader: &mut Reader<'t>,
    top: &Table<'t>,
    worker: &Worker,
    dispatch: &mut Dispatch,
) {
    let Some(table) = reader.table(top, "dispatch", keys::DISPATCH) else { return };
    let waits = duration(Millis(0)..=PROMOTE_AFTER_MAX);
    reader.set(&table, "promote_after", &mut dispatch.promote_after, waits);
    reader.set(&table, "reserve", &mut dispatch.reserve, list(reserve));
    let slots = u64::from(worker.processes) * u64::from(worker.slots);
    let kept = dispatch.reserve.iter().map(|reserve| u64::from(reserve.slots)).sum::<u64>();
    // Without worker processes the programs that embed a worker bring the slots.
    if worker.processes != 0 && slots <= kept {
        let fault = Fault::new(format!(
            "`dispatch.reserve` keeps {kept} of {slots} slots (`worker.processes` × \
             `worker.slots`), and must leave at least one"
        ));
        reader.fault_of_key("dispatch.reserve", fault);
    }
}

/// One entry of `reserve`.
fn reserve(value: &DeValue<'_>) -> Result<Reserve, String> {
    let form = "{ priority_max = 10, slots = 1 }";
    let table = value
        .as_table()
        .ok_or_else(|| format!(" must be a table such as {form}, not {}", kind(value)))?;
    let (mut priority_max, mut slots) = (None, None);
    for (key, value) in table {
        let about = |refusal: String| format!(": `{}`{refusal}", key.get_ref());
        match &**key.get_ref() {
            "priority_max" => {
                priority_max = Some(signed(i32::MIN..=i32::MAX)(value.get_ref()).map_err(about)?);
            }
            "slots" => slots = Some(integer(1..=RESERVED_MAX)(value.get_ref()).map_err(about)?),
            other => return Err(format!(" must be {form}, and has no key `{other}`")),
        }
    }
    match (priority_max, slots) {
        (Some(priority_max), Some(slots)) => Ok(Reserve { priority_max, slots }),
        _ => Err(format!(" must name both, as in {form}")),
    }
}
