"""Handlers for midwatch, in Python.

    from midwatch import Task

    task = Task.from_env()
    for batch in task.batches(task.payload["urls"], 100):
        fetch_all(batch)
    task.result({"fetched": len(task.payload["urls"])})

Nothing but the standard library is needed; Python 3.8 or later, on Linux.
Threads and child processes of a handler may all use their task: each word and its answer are one
step under the lock that ``midwatch task`` takes too. A child made with ``subprocess`` needs
``pass_fds=(3,)``.

The protocol itself: spec/handlers.md.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import socket
import sys
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NoReturn, Optional, TypeVar

__all__ = ["Broken", "MidwatchError", "OutsideHandler", "Refused", "Stopped", "Task"]

T = TypeVar("T")

# As the worker has them; a line that is too long would be refused without its mark.
CHECKPOINT_BYTES_MAX = 1 << 20
RESULT_BYTES_MAX = 64 << 10
ERROR_LETTERS_MAX = 4096
NOTE_LETTERS_MAX = 255

EX_DATAERR = 65
EX_TEMPFAIL = 75


class MidwatchError(Exception):
    """What this module raises."""


class OutsideHandler(MidwatchError):
    """There is no task here: no worker of midwatch started this program."""


class Refused(MidwatchError):
    """The worker did not take it; nothing was recorded."""


class Broken(MidwatchError):
    """The worker is gone; whether it was recorded is not known."""


class Stopped(SystemExit):
    """The task is to stop. Uncaught it ends the program in order, which obeys the stop."""

    def __init__(self, reason: str) -> None:
        super().__init__(0)
        self.reason = reason


class Task:
    """The task that this program was started for, and one attempt at it."""

    #: Number of the task.
    id: int
    #: Its type.
    type: str
    #: Number of this attempt, from 1.
    attempt: int
    #: Retries that the task may have.
    max_retry: int
    #: Grows with every attempt: give it to whatever must refuse a late writer.
    fence: int
    #: The idempotency key; None when the task has none.
    key: Optional[str]
    #: When it was due, RFC 3339.
    scheduled_for: str
    #: Whether there is a checkpoint to go on from.
    has_checkpoint: bool
    #: The last checkpoint; None when there is none.
    checkpoint_data: Any

    def __init__(self, environ: Mapping[str, str]) -> None:
        try:
            self.id = int(environ["MIDWATCH_TASK_ID"])
            self.type = environ["MIDWATCH_TASK_TYPE"]
            self.attempt = int(environ["MIDWATCH_ATTEMPT"])
            self.max_retry = int(environ["MIDWATCH_MAX_RETRY"])
            self.fence = int(environ["MIDWATCH_FENCE"])
            self.scheduled_for = environ["MIDWATCH_SCHEDULED_FOR"]
            control = int(environ["MIDWATCH_CONTROL_FD"])
            self._lock = os.path.join(environ["TMPDIR"], "control.lock")
        except (KeyError, ValueError) as error:
            raise _outside(f"{error} is not what a worker sets") from None
        try:
            # A duplicate, so that the descriptor itself stays open for children.
            self._channel = socket.socket(fileno=os.dup(control))
        except OSError as error:
            raise _outside(f"descriptor {control}: {error}") from None
        self.key = environ.get("MIDWATCH_KEY")
        self._stop: Optional[str] = None
        self._payload: Optional[bytes] = None
        file = environ.get("MIDWATCH_CHECKPOINT_FILE")
        self.has_checkpoint = file is not None
        self.checkpoint_data = None
        if file is not None:
            with open(file, encoding="utf-8") as opened:
                self.checkpoint_data = json.load(opened)

    @classmethod
    def from_env(cls) -> Task:
        """The task of this handler. Raises OutsideHandler where there is none."""
        return cls(os.environ)

    @property
    def payload(self) -> Any:
        """The payload, parsed anew each time: what is changed in it is nobody else's."""
        if self._payload is None:
            self._payload = _standard_input()
        return json.loads(self._payload)

    def checkpoint(self, data: Any) -> int:
        """Records how far the work is and returns once that is on stable storage.

        The next attempt finds it as `checkpoint_data`. Returns the sequence number of the record.
        While the engine is away this waits for it. At most 1 MiB of JSON.
        """
        text = _json(data, "checkpoint", CHECKPOINT_BYTES_MAX)
        return int(self._say({"op": "checkpoint"}, text)["seq"])

    def progress(
        self, done: int, total: Optional[int] = None, note: Optional[str] = None
    ) -> None:
        """Tells people how far the work is."""
        line: Dict[str, Any] = {"op": "progress", "done": done}
        if total is not None:
            line["total"] = total
        if note is not None:
            line["note"] = _plain(note)[:NOTE_LETTERS_MAX]
        self._say(line)

    def result(self, data: Any) -> None:
        """Leaves a result, kept with the end of this attempt. At most 64 KiB of JSON.

        After a stop was told, a result says that the work was done all the same.
        """
        self._say({"op": "result"}, _json(data, "result", RESULT_BYTES_MAX))

    def fail(self, message: str, retryable: bool = True) -> NoReturn:
        """Says why the attempt fails and ends the program.

        With `retryable=False` no other attempt is made.
        """
        line = {
            "op": "error",
            "message": _plain(message)[:ERROR_LETTERS_MAX],
            "retryable": retryable,
        }
        # The exit status says the same to a worker that did not hear it.
        status = EX_TEMPFAIL if retryable else EX_DATAERR
        try:
            self._say(line)
        except MidwatchError as error:
            print(error, file=sys.stderr)
        print(message, file=sys.stderr)
        raise SystemExit(status)

    def should_stop(self) -> bool:
        """Whether to end soon. Asks, unless an answer has said so already."""
        if self._stop is None:
            self._say({"op": "poll"})
        return self._stop is not None

    @property
    def stop_reason(self) -> Optional[str]:
        """cancel, pause, timeout, shutdown or superseded, once an answer has said so."""
        return self._stop

    def stop_if_asked(self) -> None:
        """Raises Stopped, which ends the program in order, when it should end."""
        if self.should_stop():
            raise Stopped(self._stop or "")

    def batches(self, items: Iterable[T], size: int) -> Iterator[List[T]]:
        """The items, `size` at a time, from where the last attempt got to.

        Once the loop's body is through with a batch, a checkpoint and the progress are recorded;
        so a batch runs twice at most when something dies in the middle of it. When the task is
        to stop, Stopped is raised between two batches. The items must be the same, in the same
        order, in every attempt. The checkpoint is ``{"done": N}``.
        """
        if size < 1:
            raise ValueError("a batch has at least one item")
        done = self._batches_done()
        total: Optional[int] = None
        try:
            total = len(items)  # type: ignore[arg-type]
        except TypeError:
            pass
        rest = itertools.islice(items, done, None)
        while True:
            self.stop_if_asked()
            batch = list(itertools.islice(rest, size))
            if not batch:
                return
            yield batch
            done += len(batch)
            self.checkpoint({"done": done})
            self.progress(done, total)

    def _batches_done(self) -> int:
        if not self.has_checkpoint:
            return 0
        data = self.checkpoint_data
        if isinstance(data, dict) and isinstance(data.get("done"), int):
            return int(data["done"])
        raise MidwatchError(f"the last checkpoint is not one of batches(): {data!r}")

    def _say(self, line: Dict[str, Any], data: Optional[str] = None) -> Dict[str, Any]:
        """Writes one line and waits for the answer that bears its mark."""
        mark = os.urandom(8).hex()
        text = json.dumps({**line, "id": mark})
        if data is not None:
            text = f'{text[:-1]}, "data": {data}}}'
        # Each time a file of its own: so the lock holds threads of this process apart too.
        lock = os.open(self._lock, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._channel.sendall(text.encode("ascii") + b"\n")
            answer = self._answer_to(mark)
        except OSError as error:
            raise Broken(f"the control channel is broken: {error}") from error
        finally:
            # By name: a child that was forked meanwhile has the file open too.
            fcntl.flock(lock, fcntl.LOCK_UN)
            os.close(lock)
        stop = answer.get("stop")
        if isinstance(stop, str):
            self._stop = stop
        if answer.get("ok") is not True:
            raise Refused(f"not recorded: {answer.get('error')}")
        return answer

    def _answer_to(self, mark: str) -> Dict[str, Any]:
        held = b""
        while True:
            line, feed, rest = held.partition(b"\n")
            if not feed:
                more = self._channel.recv(1 << 16)
                if not more:
                    raise Broken("the control channel is broken: the worker is gone")
                held += more
                continue
            held = rest
            try:
                answer = json.loads(line)
            except ValueError as error:
                raise Broken(f"the control channel is broken: {error}") from error
            # Others answer lines that somebody wrote by hand and did not wait for.
            if isinstance(answer, dict) and answer.get("id") == mark:
                return answer


def _outside(why: str) -> OutsideHandler:
    return OutsideHandler(
        f"there is no task here ({why}): a handler is a command of midwatch's config, "
        "started by a worker for a task"
    )


def _standard_input() -> bytes:
    """All of it, however far it was read before; the payload is a file."""
    pieces: List[bytes] = []
    try:
        while True:
            piece = os.pread(0, 1 << 16, sum(map(len, pieces)))
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
    except OSError:
        # A pipe: somebody tries the handler by hand.
        return sys.stdin.buffer.read()


def _json(data: Any, what: str, bytes_max: int) -> str:
    """JSON without line ends, in ASCII."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    if bytes_max < len(text):
        raise Refused(f"not recorded: a {what} has at most {bytes_max} bytes, not {len(text)}")
    return text


def _plain(text: str) -> str:
    """The text without half characters, which JSON could not carry."""
    return text.encode("utf-8", "replace").decode("utf-8")
