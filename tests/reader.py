#!/usr/bin/env python3
"""Reads a store by spec/journal.md and spec/records.md alone, and prints what
`midwatch-journal dump` prints: a JSON line for each record.

A proof that the pages are enough, not a tool: it reads a store as the page says under "Reading a
store", and does not judge what lies behind the end.
"""
import json, os, struct, sys, zlib
from datetime import datetime, timezone

# spec/journal.md

def sector(data, letter):
    head = data[:512]
    assert len(head) == 512 and head[:8] == b"\x89MW" + letter + b"\r\n\x1a\n", "magic"
    assert struct.unpack_from("<I", head, 508)[0] == zlib.crc32(head[:508]), "checksum"
    assert struct.unpack_from("<H", head, 10)[0] <= 1, "newer format"
    align, = struct.unpack_from("<I", head, 12)
    number, first = struct.unpack_from("<QQ", head, 32)
    return head, align, number, first, head[48:56]

def frame(data, at, salt, align):
    """The frame at a place: (first sequence, flags, records, next place), or None."""
    head = data[at:at + 32]
    if len(head) < 32 or head[:4] != b"\xf7MWF":
        return None
    flags, _, first, count, length, body_crc, head_crc = struct.unpack_from("<HHQIIII", head, 4)
    if zlib.crc32(salt + struct.pack("<Q", at) + head[:28]) != head_crc:
        return None
    body = data[at + 32:at + 32 + length]
    if length > (4 << 20) - 33 or zlib.crc32(salt + body) != body_crc:
        return None
    records, pos = [], 0
    for seq in range(first, first + count):
        crc, size, kind, bits = struct.unpack_from("<IIHH", body, pos)
        assert zlib.crc32(salt + struct.pack("<Q", seq) + body[pos + 4:pos + 12 + size]) == crc
        records.append((seq, kind, bits & 1 == 1, body[pos + 12:pos + 12 + size]))
        pos += 12 + size
    assert pos == length
    return first, flags, records, at + -(-(33 + length) // align) * align

def frames(data, align, salt, end, due, resume=(0, 0)):
    """The records up to `end`, or up to the first place without the frame that is due."""
    at, flags = 4096, 0
    while at != end and not flags & 4:
        if at == resume[0]:
            due = resume[1]
        found = frame(data, at, salt, align)
        if found is None or found[0] != due:
            assert end is None, "damage"
            return
        due, flags, records, at = found[0] + len(found[2]), *found[1:]
        yield from records

def files(root, folder, ending):
    path = os.path.join(root, folder)
    for name in sorted(os.listdir(path)) if os.path.isdir(path) else []:
        if name.endswith(ending):
            with open(os.path.join(path, name), "rb") as file:
                yield file.read()

# RFC 8949, as much of it as the bodies use

def cbor(data, at=0):
    """The value at a place and the place behind it."""
    major, info = data[at] >> 5, data[at] & 31
    at += 1
    if info >= 24:
        assert info <= 27, "no indefinite lengths"
        size = 1 << (info - 24)
        info, at = int.from_bytes(data[at:at + size], "big"), at + size
    if major == 0:
        return info, at
    if major == 1:
        return -1 - info, at
    if major in (2, 3):
        piece = data[at:at + info]
        assert len(piece) == info, "cut"
        return (piece if major == 2 else piece.decode()), at + info
    if major in (4, 5):
        items = []
        for _ in range(info if major == 4 else 2 * info):
            item, at = cbor(data, at)
            items.append(item)
        return (items if major == 4 else dict(zip(items[::2], items[1::2]))), at
    if major == 7 and info in (20, 21):
        return info == 21, at
    raise ValueError("not in a body")

# spec/records.md

KINDS = {1: "submitted", 2: "leased", 3: "heard", 4: "checkpointed", 5: "ended", 6: "moved",
         7: "stop_requested", 8: "hurried", 9: "worker_joined", 10: "worker_moved", 11: "refused",
         12: "started", 13: "forgotten", 14: "type_paused", 15: "type_resumed",
         16: "type_limited", 17: "edited", 18: "worker_changed", 19: "clock_stepped", 20: "schedule_set", 21: "schedule_removed",
         22: "schedule_paused", 23: "schedule_resumed", 24: "fired", 25: "released",
         26: "alert_raised", 27: "alert_cleared", 28: "alert_acked", 29: "alerts_told",
         1000: "snapshot_head",
         1001: "snapshot_worker", 1002: "snapshot_task", 1003: "snapshot_type",
         1004: "snapshot_schedule", 1005: "snapshot_figures", 1006: "snapshot_type_figures",
         1007: "snapshot_alerts"}
WORDS = {
    "status": "PENDING RUNNING PAUSED RETRYING LOST SUCCESS FAILED DEAD CANCELLED",
    "reason": "created dispatched completed user_cancel user_pause user_resume user_reset "
              "dependency_failed invalid_input fatal_error retryable_error timeout lease_expired "
              "worker_lost worker_crash host_rebooted worker_shutdown never_started lease_revoked "
              "executor_returned retries_exhausted lost_too_often superseded",
    "outcome": "success retryable fatal timed_out cancelled paused released lost",
    "stop": "cancel pause reset", "standing": "alive suspect offline gone",
    "act": "heartbeat checkpoint result", "per": "s m h", "from": "start end",
    "overlap": "skip queue replace", "gap": "shift skip", "fold": "first second both",
    "origin": "config runtime", "passing": "fired coalesced skipped missed queued replaced",
    "grade": "info warning critical", "saying": "stands over flapping",
    "rule": "task_failed schedule_failed schedule_silent worker_lost task_stalled "
            "backlog_growing no_worker disk_low state_full clock_stepped journal_damaged "
            "memory_growing files_growing config_refused child_parked inbox_stopped "
            "archive_failing channel_failing store_stalled overflow"}
# The names by their keys, from 0; `name:type` where it is not printed as it is.
MAPS = {
    "submitted": "task spec:spec due", "leased": "task fence worker ends secret:hidden rate:rate "
                                               "promoted",
    "heard": "worker holds:*held", "checkpointed": "task fence data:json",
    "ended": "task fence outcome:outcome to:status reason:reason wait exit_code signal "
             "result:json error usage:usage attempt ran input:hex wrong_input",
    "moved": "task to:status reason:reason wait error", "stop_requested": "task stop:stop max_retry",
    "hurried": "task", "worker_joined": "worker registration:registration",
    "worker_moved": "worker to:standing reason:reason", "refused": "task fence act:act",
    "started": "version boot_id boot_clock next_task jump:jump", "forgotten": "tasks",
    "worker_changed": "worker types slots",
    "type_paused": "type reason", "type_resumed": "type",
    "type_limited": "type max_running rate:rate",
    "edited": "task priority max_retry timeout due at:wall", "rate": "count per:per",
    "spec": "type payload:json priority max_retry timeout at:wall delay key retry_of "
            "checkpoint:json scheduled:scheduled after:after",
    "held": "task fence ends process:process progress:progress", "progress": "done total note",
    "registration": "name process:process host version lock types slots",
    "process": "pid start_time boot_id pid_namespace",
    "snapshot_head": "last_seq wall:wall life service next_task started:started started_life "
                     "jump:jump steps last_step:jump since_promotion",
    "snapshot_worker": "worker registration:registration standing:standing since:wall",
    "snapshot_task": "task type payload:json status:status priority due retry_count max_retry "
                     "lost_count timeout created:wall updated:wall born extra:extra life:history",
    "snapshot_type": "type paused:order max_running rate:rate limited:order dispatched",
    "order": "by:actor at:wall reason",
    "extra": "key retry_of at:wall by:actor scheduled:scheduled after:after open",
    "clock_stepped": "from:wall to:wall jump:jump reopens first_set",
    "schedule_set": "schedule spec:schedule-spec origin:origin next:wall keeps",
    "schedule_removed": "schedule",
    "schedule_paused": "schedule reason",
    "schedule_resumed": "schedule next:wall",
    "fired": "schedule passed:*passed task:submitted next:wall decided:wall "
             "queued:*scheduled",
    "released": "task of",
    "alert_raised": "rule:rule subject grade:grade what",
    "alert_cleared": "rule:rule subject",
    "alert_acked": "alert",
    "alerts_told": "channel told:*told",
    "told": "alert edition saying:saying at",
    "snapshot_alerts": "last edition alerts:*alert channels:*known",
    "alert": "number rule:rule subject grade:grade since:wall last:wall said count "
             "edition came came_at over over_at:wall acked:order changes flaps what "
             "failure:failure reason:reason step:jump",
    "failure": "task type status:status reason:reason attempts retries error",
    "known": "channel since sent told:*told",
    "jump": "from:wall to:wall",
    "passed": "first:wall last:wall count passing:passing task more",
    "scheduled": "schedule planned:wall manual:actor",
    "schedule-spec": "type payload:json priority plan:plan zone gap:gap fold:fold jitter "
                     "misfire_grace coalesce max_instances overlap:overlap max_retry timeout",
    "after": "tasks any",
    "snapshot_schedule": "schedule spec:schedule-spec origin:origin since:wall by:actor "
                         "paused:order next:wall decided:wall look queued:*scheduled ahead:*wall "
                         "last_task last_planned:wall last_success:wall failures counts:counts "
                         "recent:*decided",
    "snapshot_figures": "base since minutes:*tale triggers:triggers trigger_quarters:*triggers "
                         "wait_urgent:histogram wait_ordinary:histogram wait_patient:histogram "
                         "wrong_input",
    "snapshot_type_figures": "type ever:tale quarters:*tale last_success:wall last_failure:wall failures",
    "tale": "number sums:sums wait:histogram run:histogram most_retries most_task",
    "sums": "created succeeded failed dead cancelled retried lost attempts",
    "histogram": "buckets sum max",
    "triggers": "number fired on_time without_run latest",
    "counts": "fired coalesced skipped missed",
    "decided": "at:wall passed:passed",
    "history": "transitions:transitions attempts:*attempt attempt_count checkpoint:checkpoint "
               "result:json error stop:stop lease:lease progress:progress ended",
    "transitions": "first:*transition last:*transition dropped",
    "transition": "seq at:wall from:status to:status reason:reason by:actor wait note",
    "attempt": "number fence worker worker_name leased:wall waited started:wall end:attempt-end "
               "secret:hidden",
    "attempt-end": "outcome:outcome at:wall status:status exit_code signal error usage:usage",
    "usage": "peak_memory cpu_ms",
    "checkpoint": "data:json at:wall seq", "lease": "fence worker ends secret:hidden "
                                                    "process:process"}

def plain(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

def shown(value, kind):
    """A value as JSON text."""
    if kind == "wall":
        day = datetime.fromtimestamp(value // 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
        return plain(f"{day}.{value % 1000:03}Z")
    if kind == "hex":
        return plain(value.hex())
    if kind == "json":
        return value.strip().replace("\n", " ").replace("\r", " ")
    if kind == "actor":
        number, names = value
        return plain(["daemon", "uid {}", "worker {}", "{}"][number].format(*names))
    if kind == "plan":
        number, inner = value
        names = ["cron", "every:,from:from", "once:wall", "boot"][number].split(",")
        pairs = [(name.partition(":")[0], name.partition(":")[2]) for name in names]
        shown_pairs = [f"{plain(n)}:{shown(v, k)}" for (n, k), v in zip(pairs, inner or [True])]
        return "{" + ",".join(shown_pairs) + "}"
    if kind in WORDS:
        return plain(WORDS[kind].split()[value])
    if kind.startswith("*"):
        return "[" + ",".join(shown(item, kind[1:]) for item in value) + "]"
    if kind in MAPS:
        return "{" + ",".join(fields(value, kind)) + "}"
    return plain(value)

def fields(value, kind):
    """The fields of a map, in the order of their keys; unknown keys are skipped."""
    for key, field in enumerate(MAPS[kind].split()):
        name, _, inner = field.partition(":")
        if key in value and inner != "hidden":
            yield f"{plain(name)}:{shown(value[key], inner)}"

def show(seq, kind, ignorable, body):
    try:
        value, end = cbor(body) if kind in KINDS else (None, 0)
        assert end == len(body) and isinstance(value, dict)
    except (AssertionError, IndexError, ValueError):
        # A body that nobody here can read, as it is.
        print(json.dumps({"body": body.hex(), "event": None, "ignorable": ignorable, "kind": kind,
                          "seq": seq}, separators=(",", ":")))
        return
    line = [f'"seq":{seq}']
    if kind < 1000:
        line += [f'"at":{shown(value[0], "wall")}', f'"life":{value[1]}',
                 f'"service":{value[2]}', f'"by":{shown(value[3], "actor")}']
        value = value[4]
    line.append(f'"event":{plain(KINDS[kind])}')
    print("{" + ",".join(line + list(fields(value, KINDS[kind]))) + "}")

def main(root):
    segments = [(data, *sector(data, b"J")) for data in files(root, "journal", ".journal")]
    _, _, _, number, held_from, _ = segments[0]
    for data in files(root, "snapshots", ".snapshot"):
        _, align, _, at, salt = sector(data, b"S")
        # Where segments are gone, the oldest snapshot that reaches the first one stands for them.
        if number > 1 and held_from <= at + 1:
            for _, kind, ignorable, body in frames(data, align, salt, None, 0):
                show(at, kind, ignorable, body)
            break
    for index, (data, head, align, _, first, salt) in enumerate(segments):
        following = segments[index + 1][1] if index + 1 < len(segments) else None
        end = struct.unpack_from("<Q", following, 96)[0] if following else None
        resume = struct.unpack_from("<QQ", head, 120)
        for seq, kind, ignorable, body in frames(data, align, salt, end, first, resume):
            show(seq, kind, ignorable, body)

if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    main(sys.argv[1])
