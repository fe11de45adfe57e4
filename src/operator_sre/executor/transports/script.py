"""The script that runs one command somewhere else, and what is read back from it."""

from __future__ import annotations

import functools
import hashlib
import math
import re
import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Protocol

from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.excerpt import find_start, note_omission

__all__ = ["Called", "Ear", "Hear", "Order", "Told", "Wire", "new_token", "script_of"]

GRACE_S = 2.0
# Of each stream, how much is kept in the folder of a job; a shell counts in blocks of 512 bytes.
OUTPUT_BYTES_MAX = 100 * 1024 * 1024
# Of what is too much, the last bytes, as the script keeps them.
LAST_BYTES_MAX = 32_768
BLOCK_BYTES = 512
# What a login shell may say by itself, and what one line of a report may be long.
NOISE_BYTES_MAX = 64 * 1024
LINE_BYTES_MAX = 4096
# What an honest place sends at most: all that is kept, and the end of it once more.
HEARD_BYTES_MAX = OUTPUT_BYTES_MAX + 1024 * 1024
_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_BASH = 'if [ -x /bin/bash ]; then set -- /bin/bash -c "$1"; else set -- /bin/sh -c "$1"; fi\n'


@dataclass(frozen=True, slots=True)
class Order:
    """What is asked of the script: to run, to recover, to stop or to sweep a job.

    `start` is how many bytes of stdout and stderr are here already.
    """

    mode: str
    job: str
    environment: Mapping[str, str]
    argv: Sequence[str] = ()
    command: str = ""
    cwd: str = "/"
    timeout_s: float = 0.0
    start: tuple[int, int] = (0, 0)


def script_of(order: Order, token: str) -> bytes:
    """All of it as one compound command, so that half of it does nothing."""
    job = order.job
    values = {
        "mode": order.mode,
        "job": job if _SAFE_ID.fullmatch(job) else hashlib.sha256(job.encode()).hexdigest(),
        "token": token,
        "cwd": order.cwd,
        "limit_s": f"{order.timeout_s:.3f}",
        "limit_up_s": str(math.ceil(order.timeout_s)),
        "grace_s": str(math.ceil(GRACE_S)),
        "output_blocks": str(OUTPUT_BYTES_MAX // BLOCK_BYTES),
        "from_out": str(order.start[0]),
        "from_err": str(order.start[1]),
    }
    lines = [f"export {name}={shlex.quote(value)}" for name, value in order.environment.items()]
    lines += [f"{name}={shlex.quote(value)}" for name, value in values.items()]
    if order.argv:
        words = f"set -- {shlex.join(order.argv)}\n"
    else:
        words = f"set -- {shlex.quote(order.command)}\n{_BASH}"
    text = "{\n" + "\n".join(lines) + "\n" + words + _keeper() + "}\n"
    return text.encode()


def new_token() -> str:
    """A mark in a stream that the command cannot guess."""
    return f"\x1e{secrets.token_hex(16)}"


@functools.cache
def _keeper() -> str:
    return resources.files(__package__).joinpath("keeper.sh").read_text()


@dataclass(frozen=True, slots=True)
class Told:
    """What a report says of one stream; `words` are those of the record of its job.

    `size` bytes are kept, `more` were too many, and from `start` on they follow the report.
    """

    size: int
    start: int
    more: int
    words: tuple[str, ...]


class Ear:
    """Parses one stream of a call: noise, live output, a report, the rest of the output.

    `passes` gets each byte of the output once; `has_gap` says that some are missing between what
    came live and the rest.
    """

    def __init__(self, stream: int, token: str, start: int, passes: Hear) -> None:
        self._stream = stream
        self._token = token.encode()
        self._passes = passes
        self._held = b""
        self._tokens = 0
        self._heard = 0
        # Of the rest: how many bytes are here already, and how many are still to come.
        self._ahead = 0
        self._left = 0
        self.position = start
        self.told: Told | None = None
        self.has_gap = False
        self._last = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes, whatever they are."""
        self._heard += len(data)
        if self._heard > HEARD_BYTES_MAX:
            return
        if self.told is not None:
            self._rest(data)
            return
        self._held += data
        if self._tokens == 0:
            _, found, rest = self._held.partition(self._token)
            if found:
                self._held, self._tokens = rest, 1
            elif len(self._held) > NOISE_BYTES_MAX:
                self._held = self._held[-len(self._token) :]
        if self._tokens == 1:
            output, found, rest = self._held.partition(self._token)
            if found:
                self._held, self._tokens = rest, 2
            else:
                # How many of the last bytes could be the beginning of a token.
                longest = min(len(output), len(self._token) - 1)
                kept = next(
                    (n for n in range(longest, 0, -1) if output.endswith(self._token[:n])), 0
                )
                self._held = output[len(output) - kept :]
                output = output[: len(output) - kept]
            if output:
                self.position += len(output)
                self._passes(self._stream, output)
        if self._tokens > 1:
            line, found, rest = self._held.partition(b"\n")
            if not found:
                self._held = self._held[: LINE_BYTES_MAX + 1]
            elif (report := _parse_report(line)) is not None:
                self.told, self._held = report, b""
                self.has_gap = report.start > self.position
                self._ahead = max(0, self.position - report.start)
                self._left = report.size - report.start
                self._rest(rest)

    def _rest(self, data: bytes) -> None:
        """The kept bytes from the reported position, then the last bytes beyond the limit."""
        kept, tail = data[: max(0, self._left)], data[max(0, self._left) :]
        self._left -= len(kept)
        new = kept[self._ahead :]
        self._ahead -= len(kept) - len(new)
        if self.has_gap:
            return
        self.position += len(new)
        more = self.told.more if self.told is not None else 0
        if more <= LAST_BYTES_MAX:  # nothing is missing before these
            new, tail = new + tail, b""
        if new:
            self._passes(self._stream, new)
        if tail and len(self._last) < LAST_BYTES_MAX:
            self._last += tail
            if len(self._last) >= LAST_BYTES_MAX:
                # What follows a gap may belong to what is missing.
                last = self._last[find_start(self._last, inside=True) :]
                self._passes(self._stream, note_omission(more - len(last)) + last)


def _parse_report(line: bytes) -> Told | None:
    words = line[:LINE_BYTES_MAX].decode("utf-8", "replace").split(" ")
    numbers = [word for word in words[:3] if re.fullmatch(r"[0-9]{1,15}|-", word)]
    if len(numbers) < 3 or "-" in numbers[:2]:
        return None
    size, start, more = (int(word) if word != "-" else 0 for word in numbers)
    return Told(size, start, more, tuple(word for word in words[3:] if word))


Hear = Callable[[int, bytes], None]


@dataclass(frozen=True, slots=True)
class Called:
    """How a call went. `sent` says whether anything of the script may have arrived.

    `trouble` is a sentence, and empty when the shell there read the script and ended.
    """

    sent: bool = True
    trouble: str = ""
    category: FailureCategory | None = None


class Wire(Protocol):
    """A way to one place. It remembers nothing of a job."""

    async def reach(self) -> Called:
        """Make sure that the place can be called, where that takes a while; it sends nothing."""
        ...

    async def call(self, script: bytes, hear: Hear, *, within_s: float) -> Called:
        """Run a script in a POSIX shell with an empty environment; `hear` gets what it says.

        The script begins to run only when all of it has arrived. Cancelled, it only hangs up.
        """
        ...

    async def identify(self) -> str:
        """What a permit is bound to; raises ExecutorError when it is unknown."""
        ...

    async def aclose(self) -> None:
        """Let go of what it holds."""
        ...
