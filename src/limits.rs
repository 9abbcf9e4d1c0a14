//! Every bound of midwatch in one place; they check each other at compile time.
//!
//! A bound that is written is also the bound that is read: what a peer or a file claims beyond it
//! is refused, never allocated.

/// Largest payload, and largest checkpoint, of one task.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// Largest result an attempt may leave.
pub const RESULT_BYTES_MAX: usize = 64 << 10;

/// Longest line on a handler's control channel: a full checkpoint and the words around it.
pub const CONTROL_LINE_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + (4 << 10);

/// Deepest JSON accepted anywhere; `serde_json` refuses to parse deeper than 128.
pub const JSON_DEPTH_MAX: usize = 100;

/// Longest name of a task type, an idempotency key, or a worker.
pub const NAME_BYTES_MAX: usize = 255;

/// Longest error text kept with an attempt; the whole of it is in the attempt's log.
pub const ERROR_TEXT_BYTES_MAX: usize = 4 << 10;

/// Dispatches that a rate may count: each that still counts is remembered.
pub const RATE_COUNT_MAX: usize = 10_000;

/// Tasks of one type that a bound may let run at once.
pub const MAX_RUNNING_MAX: usize = 100_000;

/// Longest reason that somebody gives for pausing a type.
pub const REASON_BYTES_MAX: usize = 1 << 10;

/// Largest body of one request, bulk submission excepted.
pub const BODY_BYTES_MAX: usize = 4 << 20;

/// Largest body of one bulk submission; bigger imports are sent in pieces by the client.
pub const BULK_BODY_BYTES_MAX: usize = 64 << 20;

/// Files that the inbox takes in one batch.
pub const INBOX_BATCH_MAX: usize = 256;

/// Files of the inbox whose end is waited for at once; each takes some 60 bytes of memory.
pub const INBOX_WAITED_MAX: usize = 1 << 16;

/// Longest id of a webhook's delivery; with the name of its hook it is an idempotency key.
pub const DELIVERY_ID_BYTES_MAX: usize = 200;

/// Connections served at once; the next one is turned away.
pub const CONNECTIONS_MAX: usize = 1024;

/// Connections by TCP served at once, counted apart: they must not keep workers and people of this
/// host out. One more takes the place of the one that has been idle for longest.
pub const TCP_CONNECTIONS_MAX: usize = 128;

/// Requests that may wait for the engine; a full queue answers "busy" instead of growing.
pub const INPUTS_QUEUED_MAX: usize = 4096;

/// Inputs decided in one turn of the engine, so that no turn is without end.
pub const INPUTS_PER_TURN_MAX: usize = 512;

/// Tasks leased in one request.
pub const LEASES_PER_REQUEST_MAX: usize = 1024;

/// Transitions of one task that are kept from its beginning, and again from its end.
pub const TRANSITIONS_KEPT: usize = 100;

/// Attempts of one task that are kept, the latest ones.
pub const ATTEMPTS_KEPT: usize = 20;

/// Ended tasks that one record lets go: what one turn can end, so that letting go keeps up, and few
/// enough that no frame grows by it.
pub const FORGOTTEN_PER_RECORD_MAX: usize = 1024;

/// Ended tasks that are written to the archive between two syncs of it.
pub const ARCHIVED_AT_ONCE_MAX: usize = 64;

/// Tasks in one answer to `list`.
pub const LIST_PAGE_MAX: usize = 10_000;

/// Tasks that one `list` request may look at before it answers with a place to go on from.
pub const LIST_VISITED_MAX: usize = 200_000;

const _: () = assert!(PAYLOAD_BYTES_MAX < CONTROL_LINE_BYTES_MAX);
const _: () = assert!(CONTROL_LINE_BYTES_MAX < BODY_BYTES_MAX, "a checkpoint must fit a request");
const _: () = assert!(DELIVERY_ID_BYTES_MAX < NAME_BYTES_MAX);
const _: () = assert!(RESULT_BYTES_MAX < PAYLOAD_BYTES_MAX);
const _: () = assert!(INPUTS_PER_TURN_MAX <= INPUTS_QUEUED_MAX);
const _: () = assert!(INPUTS_PER_TURN_MAX <= FORGOTTEN_PER_RECORD_MAX);
const _: () = assert!(ARCHIVED_AT_ONCE_MAX <= FORGOTTEN_PER_RECORD_MAX);

/// Where JSON first goes more than `most` brackets deep; brackets in strings do not count.
pub fn deeper_than(json: &[u8], most: usize) -> Option<usize> {
    // Most JSON has too few brackets to be deep, and counting them is much faster than following
    // them.
    let opens = |byte: &u8| u8::from(matches!(byte, b'[' | b'{'));
    let pieces = json.chunks(255).map(|piece| usize::from(piece.iter().map(opens).sum::<u8>()));
    if pieces.sum::<usize>() <= most {
        return None;
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (place, byte) in json.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if most < depth {
                    return Some(place);
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// Longest cron expression, in bytes.
pub const CRON_BYTES_MAX: usize = 256;

/// Decisions of a schedule that are kept, in memory and in snapshots.
pub const DECIDED_KEPT: usize = 20;

/// Schedules at once. Each takes about a kilobyte with its last decisions.
pub const SCHEDULES_MAX: usize = 20_000;

/// Fires of one schedule that wait for a run to end; what comes then is skipped.
pub const FIRES_QUEUED_MAX: usize = 100;

/// Planned times that one record decides; a schedule that missed more is decided in several.
pub const PLANNED_PER_RECORD_MAX: usize = 10_000;

/// Planned times that are remembered as fired when the clock was put back behind them.
pub const AHEAD_MAX: usize = 10_000;

/// Alerts that are kept, those that are over among them; one more stands for the rest.
pub const ALERTS_MAX: usize = 256;

/// Channels of alerts of which it is remembered what they were told.
pub const ALERT_CHANNELS_MAX: usize = 32;

/// Longest text that an alert keeps: of an error, or of who raised it.
pub const ALERT_TEXT_BYTES_MAX: usize = 500;

/// Alerts that one message tells in words; the rest is counted.
pub const ALERTS_NAMED_MAX: usize = 10;

/// Messages that one channel may be sent in an hour, whatever its config says.
pub const ALERT_MESSAGES_PER_HOUR_MAX: usize = 60;

/// Tasks that one task may wait for.
pub const AFTER_MAX: usize = 100;

/// Tasks that are decided in one step when the task they wait for ended; more follow in the next.
pub const SETTLED_PER_STEP_MAX: usize = 256;

/// Types whose figures are counted apart; those beyond are counted together.
pub const TYPES_COUNTED_MAX: usize = 256;

/// Minutes of which figures are kept, those left out in which nothing happened.
pub const MINUTES_KEPT: usize = 120;

/// Quarters of an hour of which figures are kept by type: a day, and the one that goes on.
pub const QUARTERS_KEPT: usize = 97;
