//! Bodies of records: any bytes decode or are refused, and what decodes is the same after a trip
//! through the encoder.

use midwatch::engine::codec::{self, SNAPSHOT_KINDS};
use midwatch::engine::for_each_record;
use midwatch::kernel::event::Event;
use midwatch::kernel::ids::Seq;

pub fn run(input: &[u8]) {
    let Some((kind, body)) = input.split_first_chunk::<2>() else { return };
    let kind = u16::from_le_bytes(*kind);
    if SNAPSHOT_KINDS <= kind {
        // Whatever it is, it can be looked at.
        drop(codec::decode_kept(kind, body).map(|kept| format!("{kept:?}")));
        return;
    }
    let Ok((stamp, event)) = codec::decode(Seq(1), kind, body) else { return };
    assert_eq!(codec::kind(&event), kind);
    let mut again = Vec::new();
    codec::encode(&stamp, &event, &mut again);
    let decoded = codec::decode(Seq(1), kind, &again).expect("what was encoded can be read");
    assert_eq!(decoded, (stamp, event));
}

/// Every kind of record that a lively history has.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut seeds = Vec::new();
    let mut add = |name: &'static str, kind: u16, body: &[u8]| {
        if seeds.iter().all(|(known, _)| *known != name) {
            let mut input = kind.to_le_bytes().to_vec();
            input.extend_from_slice(body);
            seeds.push((name, input));
        }
    };
    let (records, states) = crate::commands::histories();
    for (stamp, event) in records {
        let mut body = Vec::new();
        codec::encode(&stamp, &event, &mut body);
        add(name(&event), codec::kind(&event), &body);
    }
    for state in states {
        let done: Result<(), std::convert::Infallible> =
            for_each_record(&state.image(), |kind, body| {
                add(kept_name(kind), kind, body);
                Ok(())
            });
        let Ok(()) = done;
    }
    seeds
}

fn kept_name(kind: u16) -> &'static str {
    match kind {
        codec::KIND_HEAD => "head",
        codec::KIND_WORKER => "worker",
        codec::KIND_TASK => "task",
        codec::KIND_TYPE => "type",
        codec::KIND_SCHEDULE => "schedule",
        codec::KIND_FIGURES => "figures",
        codec::KIND_TYPE_FIGURES => "type-figures",
        codec::KIND_ALERTS => "alerts",
        _ => panic!("a record of kind {kind} in a snapshot"),
    }
}

fn name(event: &Event) -> &'static str {
    match event {
        Event::Submitted(_) => "submitted",
        Event::Leased(_) => "leased",
        Event::Heard(_) => "heard",
        Event::Checkpointed(_) => "checkpointed",
        Event::Ended(_) => "ended",
        Event::Moved(_) => "moved",
        Event::StopRequested(_) => "stop-requested",
        Event::Hurried(_) => "hurried",
        Event::WorkerJoined(_) => "worker-joined",
        Event::WorkerMoved(_) => "worker-moved",
        Event::WorkerChanged(_) => "worker-changed",
        Event::Refused(_) => "refused",
        Event::Started(_) => "started",
        Event::Forgotten(_) => "forgotten",
        Event::TypePaused(_) => "type-paused",
        Event::TypeResumed(_) => "type-resumed",
        Event::TypeLimited(_) => "type-limited",
        Event::Edited(_) => "edited",
        Event::ClockStepped(_) => "clock-stepped",
        Event::ScheduleSet(_) => "schedule-set",
        Event::ScheduleRemoved(_) => "schedule-removed",
        Event::SchedulePaused(_) => "schedule-paused",
        Event::ScheduleResumed(_) => "schedule-resumed",
        Event::Fired(_) => "fired",
        Event::Released(_) => "released",
        Event::AlertRaised(_) => "alert-raised",
        Event::AlertCleared(_) => "alert-cleared",
        Event::AlertAcked(_) => "alert-acked",
        Event::AlertsTold(_) => "alerts-told",
    }
}
