"""The messages between a runner and its clients: lines of JSON, each about one job."""

from __future__ import annotations

import msgspec

from operator_protocols.domain.target import Process

__all__ = [
    "LINE_BYTES_MAX",
    "PROTOCOL",
    "Attach",
    "Begin",
    "Bounds",
    "Done",
    "End",
    "Event",
    "Leave",
    "More",
    "Order",
    "Prepare",
    "Remains",
    "Request",
    "Started",
    "Unknown",
    "decode_event",
    "decode_request",
    "encode",
]

# Both sides have to mean the same by every field; the tag of an order changes along with it.
PROTOCOL = "operator-runner-6\n"
# Arguments and environment of a program have at most 2 MiB on Linux, its input has 1 MiB here.
LINE_BYTES_MAX = 6 * 1024 * 1024


class Bounds(msgspec.Struct, frozen=True):
    """What the kernel holds a program to.

    `hidden` cannot be read, but what is `shown` among it. `reads` are the paths that it is to read,
    `writable` the paths it may write: none, or None for all that is not hidden. `hosts` and
    `sockets` are what it may connect to, a None again for all; `programs` may use
    the sockets. `abilities` are what it needs beyond that, and `signals` the processes that are
    not its own and that it may signal, with all that came out of them. With `hosts`, it may ask
    name servers if it `resolves`.
    """

    hidden: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writable: tuple[str, ...] | None = ()
    hosts: tuple[str, ...] | None = ()
    sockets: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    abilities: tuple[str, ...] = ()
    signals: tuple[Process, ...] = ()
    resolves: bool = True


class Order(msgspec.Struct, frozen=True, tag="order-5"):
    """Start a program under the name of its job; known already, it is only attached to.

    `env` is all the environment that it gets, each `NAME=value`; nothing of it needs to be text.
    `ends_left` ends what it leaves behind, `ends_alone` ends it when no client waits for it.
    `follows` wants to hear that there is more output. Without `bounds` it is not confined.
    """

    id: str
    argv: tuple[bytes, ...]
    env: tuple[bytes, ...]
    cwd: bytes
    timeout_s: float
    grace_s: float
    stdin: bytes = b""
    ends_left: bool = False
    ends_alone: bool = False
    follows: bool = False
    bounds: Bounds | None = None


class Prepare(msgspec.Struct, frozen=True, tag="prepare"):
    """Get ready for an order. It starts with `Begin` on the same connection, and without it never.

    Any other request, and the end of the connection, drop what was prepared.
    """

    order: Order


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    """Start the job that was prepared on this connection."""

    id: str


class Attach(msgspec.Struct, frozen=True, tag="attach"):
    """Tell me how it ends. A job that never began can never begin afterwards."""

    id: str
    follows: bool = False


class End(msgspec.Struct, frozen=True, tag="end"):
    """End it now, with all that came out of it."""

    id: str


class Leave(msgspec.Struct, frozen=True, tag="leave"):
    """Go as soon as nothing runs; the connection ends with it."""


class Started(msgspec.Struct, frozen=True, tag="started"):
    """It is this process."""

    id: str
    process: Process


class More(msgspec.Struct, frozen=True, tag="more"):
    """There is more output."""

    id: str


class Unknown(msgspec.Struct, frozen=True, tag="unknown"):
    """It never began, and never will. `since` is how far back the runner's memory reaches."""

    id: str
    since: float


class Remains(msgspec.Struct, frozen=True):
    """A process that was left behind."""

    process: Process
    name: str
    ended: bool = False


class Done(msgspec.Struct, frozen=True, tag="done"):
    """What became of a job; `stdout` and `stderr` are their heads and tails.

    `exit_code` is negative for a signal and None if the end was not observed; `errno` says why it
    could not be started, `refused` that nothing was started. The hashes are those of the whole
    outputs, as far as they were kept. `blocked` is what it tried and its bounds forbid.
    """

    id: str
    exit_code: int | None
    process: Process | None = None
    errno: int = 0
    error: str = ""
    timed_out: bool = False
    cancelled: bool = False
    refused: bool = False
    duration_s: float = 0.0
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    stdout_sha256: str = ""
    stderr_sha256: str = ""
    truncated: bool = False
    user_s: float = 0.0
    system_s: float = 0.0
    memory_bytes: int = 0
    left: tuple[Remains, ...] = ()
    blocked: tuple[str, ...] = ()


Request = Order | Prepare | Begin | Attach | End | Leave
Event = Started | More | Unknown | Done

_encoder = msgspec.json.Encoder()
_requests: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_events: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def encode(message: Request | Event) -> bytes:
    """One line."""
    return _encoder.encode(message) + b"\n"


def decode_request(line: bytes) -> Request:
    """What is asked; msgspec.MsgspecError when it is something else."""
    return _requests.decode(line)


def decode_event(line: bytes) -> Event:
    """An event; msgspec.MsgspecError when it is something else."""
    return _events.decode(line)
