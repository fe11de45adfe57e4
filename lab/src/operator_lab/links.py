"""The links of a rig: everybody reaches a linked process through them, and they can be cut.

Run by the rig's supervisor as `python -m operator_lab.links --config FILE`. A link listens as
long as its process does. SIGHUP means that the rules have changed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import resource
import signal
import socket
import struct
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum, auto
from pathlib import Path
from typing import Any

from operator_lab.manifest import HOST
from operator_lab.ports import Ends, callers_sockets, listening
from operator_lab.rules import EVERYBODY, Rules, read_rules, write_applied
from operator_sre.processes.identity import tree_of
from operator_sre.processes.supervision import read_state

__all__ = [
    "RESEND_S",
    "Links",
    "Wire",
    "callers",
    "main",
]


def callers(directory: Path, names: Collection[str], ends: Iterable[Ends]) -> dict[Ends, str]:
    """The names of those processes of a rig that hold these connections; strangers have none."""
    sockets = callers_sockets(ends)
    found: dict[Ends, str] = {}
    if not sockets:
        return found
    state = read_state(directory)
    children = () if state is None else state.children
    for name, pids in {
        child.name: _with_descendants(child.process.pid)
        for child in children
        if child.name in names and child.process is not None
    }.items():
        for pid in pids:
            held = []
            with contextlib.suppress(OSError):
                for entry in Path(f"/proc/{pid}/fd").iterdir():
                    with contextlib.suppress(OSError):
                        word = str(entry.readlink())
                        if word in sockets:
                            held.append(word)
            found.update((sockets[each], name) for each in held)
            if len(found) == len(sockets):
                return found
    return found


def _with_descendants(pid: int) -> list[int]:
    found, queue = [], [pid]
    while queue:
        each = queue.pop()
        found.append(each)
        try:
            children: list[int] = []
            for task in Path(f"/proc/{each}/task").iterdir():
                children += map(int, (task / "children").read_text().split())
            queue.extend(children)
        except FileNotFoundError:
            if Path(f"/proc/{each}").exists():
                # A kernel that does not list children: the whole table must be looked through.
                return [pid, *(process.pid for process in tree_of(pid))]
    return found


WAITING_BYTES_MAX = 16 << 20
# A timer may fire a little early; what is due within this time is due.
EARLY_S = 0.001
# How long TCP waits before it sends a lost message again; each time twice as long.
RESEND_S = 0.2
RESEND_S_MAX = 12.0


class _End(Enum):
    """What comes after the last byte: one side has no more to say, or is gone."""

    EOF = auto()
    CLOSED = auto()


class _Side(asyncio.Protocol):
    """One of the two ends of a wire, and what waits to be written to it."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.peer = self
        self.transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[float, bytes | _End]] = deque()
        self._waiting_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._blocked = False
        self._said_all = False
        self._told_all = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self.transport = transport
        self.wire.connect(self)

    def data_received(self, data: bytes) -> None:
        wire, to = self.wire, self.peer
        if wire.plain and to.transport is not None and not to._waiting:
            to.transport.write(data)
        elif not wire.silent:
            to.put(data, wire.delay_s + wire.resend_s())

    def eof_received(self) -> bool:
        if self.wire.silent:
            return False
        self._said_all = True
        self.peer.put(_End.EOF, self.wire.delay_s)
        # Half-closed until both have sent all.
        return not self._told_all

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if not self.wire.silent:
            self.peer.put(_End.CLOSED, self.wire.delay_s)
        self.wire.disconnect()

    def pause_writing(self) -> None:
        self._blocked = True
        self._govern()

    def resume_writing(self) -> None:
        self._blocked = False
        self._govern()

    def put(self, item: bytes | _End, delay_s: float) -> None:
        """Write it when its time has come, never before what came earlier."""
        loop = asyncio.get_running_loop()
        due = loop.time() + delay_s
        if self._waiting:
            due = max(due, self._waiting[-1][0])
        self._waiting.append((due, item))
        self._waiting_bytes += len(item) if isinstance(item, bytes) else 0
        if self.wire.connected:
            self.flush(loop.time())
        self._govern()

    def flush(self, until: float) -> None:
        """Write what is due until then."""
        while self._waiting and self._waiting[0][0] <= until + EARLY_S:
            _, item = self._waiting.popleft()
            self._waiting_bytes -= len(item) if isinstance(item, bytes) else 0
            if self.transport is None or self.transport.is_closing():
                continue
            if isinstance(item, bytes):
                self.transport.write(item)
            elif item is _End.CLOSED or self._said_all:
                self.transport.close()
            else:
                self._told_all = True
                with contextlib.suppress(OSError):
                    self.transport.write_eof()
        self._govern()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            loop = asyncio.get_running_loop()
            due = self._waiting[0][0]
            self._timer = loop.call_at(due, lambda: self.flush(loop.time()))

    def forget(self) -> None:
        """What waits is lost."""
        self._waiting.clear()
        self._waiting_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._govern()

    def close(self, *, reset: bool = False) -> None:
        """Hang up; with `reset`, as a port without a listener does."""
        self.forget()
        if self.transport is None:
            return
        if reset:
            sock = self.transport.get_extra_info("socket")
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _govern(self) -> None:
        """Limit a sender to the pace of its receiver."""
        sender = self.peer.transport
        if sender is None or sender.is_closing():
            return
        if not self.wire.silent and (self._blocked or self._waiting_bytes > WAITING_BYTES_MAX):
            sender.pause_reading()
        else:
            sender.resume_reading()


class Wire:
    """A caller, the process that it called, and what may pass between them now."""

    def __init__(self, port: int, *, opened: Callable[[Wire], None]) -> None:
        self._port = port
        self._on_open = opened
        self._dialling: asyncio.Task[None] | None = None
        self.caller, self._called = _Side(self), _Side(self)
        self.caller.peer, self._called.peer = self._called, self.caller
        self.ended: Callable[[Wire], None] = lambda wire: None
        self.refused: Callable[[], None] = lambda: None
        self.ends = (0, 0)
        self.connected = False
        self.silent = False
        self.delay_s = self.loss = 0.0
        # Nothing needs to be asked of a wire that is plain.
        self.plain = False

    def connect(self, side: _Side) -> None:
        """One side is there; the first is the caller."""
        if side is self.caller and side.transport is not None:
            far = side.transport.get_extra_info("peername")
            near = side.transport.get_extra_info("sockname")
            self.ends = (far[1], near[1])
            self._on_open(self)

    def resend_s(self) -> float:
        """How long the next message waits because it was lost, perhaps again and again."""
        waited_s, timeout_s = 0.0, RESEND_S
        while self.loss and waited_s < RESEND_S_MAX and random.random() < self.loss:
            waited_s, timeout_s = waited_s + timeout_s, timeout_s * 2
        return waited_s

    def rule(self, *, cut: bool, delay_s: float, loss: float = 0.0) -> None:
        """From now on this holds; what was silent and is not any more is closed."""
        if cut:
            self.silent, self.plain = True, False
            self._stop_dialling()
            for side in (self.caller, self._called):
                side.forget()
            return
        if self.silent:
            self.close()
            return
        shorter = delay_s < self.delay_s or loss < self.loss
        self.delay_s, self.loss = delay_s, loss
        self.plain = self.connected and not delay_s and not loss
        if self.connected and shorter:
            for side in (self.caller, self._called):
                side.flush(float("inf"))
        if not self.connected and self._dialling is None:
            self._dialling = asyncio.get_running_loop().create_task(self._dial())

    def disconnect(self) -> None:
        """One side is gone."""
        if self.caller.transport is None:
            self._stop_dialling()
            if self._called.transport is None:
                self.ended(self)

    def close(self, *, reset: bool = False) -> None:
        """Hang up on both sides."""
        self._stop_dialling()
        for side in (self.caller, self._called):
            side.close(reset=reset)

    async def _dial(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: self._called, HOST, self._port)
        except OSError:
            self.refused()
            self.close(reset=True)
            return
        self.connected = True
        self.plain = not self.delay_s and not self.loss and not self.silent
        self._called.flush(loop.time())

    def _stop_dialling(self) -> None:
        if self._dialling is not None and not self.connected:
            self._dialling.cancel()


LOOK_S = 0.05
BACKLOG = 512
WIRES_MAX = 20_000


class _Link:
    """One port at which a process is reached, with the wires that go through it."""

    def __init__(self, links: Links, *, target: str, listen: int, to: int) -> None:
        self._links = links
        self._server: asyncio.Server | None = None
        self.target, self.listen, self.to = target, listen, to
        self.wires: set[Wire] = set()

    async def open(self) -> None:
        """Accept; OSError when another process has the port."""

        def add(wire: Wire) -> None:
            if self._links.count() >= WIRES_MAX:
                wire.close()
                return
            self.wires.add(wire)
            self._links.judge(self, [wire])

        def accept() -> asyncio.Protocol:
            wire = Wire(self.to, opened=add)
            wire.ended = self.wires.discard
            wire.refused = self._links.look_soon
            return wire.caller

        if self._server is None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(accept, HOST, self.listen, backlog=BACKLOG)

    def close(self) -> None:
        """Refuse, as a port without a listener does; open connections go on."""
        if self._server is not None:
            self._server.close()
            self._server = None


class Links:
    """All links of one rig, in one thread."""

    def __init__(
        self, directory: Path, *, targets: Sequence[str], links: Sequence[Mapping[str, Any]]
    ) -> None:
        self._directory = directory
        self._targets = frozenset(targets)
        self._links = [_Link(self, **link) for link in links]
        self._rules = Rules()
        self._changed = False
        self._wake = asyncio.Event()

    async def serve(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()

        def note_change() -> None:
            self._changed = True
            self._wake.set()

        loop.add_signal_handler(signal.SIGHUP, note_change)
        self._rules = read_rules(self._directory)
        # All at once, so that a port which another process took is noticed now.
        for link in self._links:
            await link.open()
        await self._look()
        write_applied(self._directory, self._rules)
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._wake.wait()
            self._wake.clear()
            changed, self._changed = self._changed, False
            if changed:
                self._rules = read_rules(self._directory)
                for link in self._links:
                    self.judge(link, list(link.wires))
            await self._look()
            if changed:
                write_applied(self._directory, self._rules)

    def look_soon(self) -> None:
        """A target that listened a moment ago does not any more."""
        self._wake.set()

    def count(self) -> int:
        """How many wires there are."""
        return sum(len(link.wires) for link in self._links)

    def judge(self, link: _Link, wires: Sequence[Wire]) -> None:
        """Let hold what the rules say about these wires."""
        names: Mapping[tuple[int, int], str] = {}
        if wires and self._asks_who(link.target):
            names = callers(self._directory, self._targets, [wire.ends for wire in wires])
        for wire in wires:
            caller = names.get(wire.ends, "")
            cut, delay_s = self._rules.between(caller, link.target)
            wire.rule(cut=cut, delay_s=delay_s, loss=self._rules.loss(caller, link.target))

    def _asks_who(self, target: str) -> bool:
        """Whether it matters to this link who called; looking that up takes a while."""
        own = (rule for rule in self._rules.rules if target in (rule.target, rule.other))
        broad = (rule for rule in self._rules.rules if rule.other == EVERYBODY)
        return any(not rule.holds("", target) for rule in (*own, *broad))

    async def _look(self) -> None:
        """A link listens while its process does, and while nothing passes to it."""
        heard = listening()
        for link in self._links:
            cut, _ = self._rules.between("", link.target)
            if heard is None or link.to in heard or cut:
                # Another process may have taken the port meanwhile; it is tried again.
                with contextlib.suppress(OSError):
                    await link.open()
            else:
                link.close()


async def _serve(config: Mapping[str, Any]) -> None:
    """Hold the links until SIGTERM."""
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: task.cancel() if task is not None else False)
    links = Links(Path(config["directory"]), targets=config["targets"], links=config["links"])
    await links.serve()


def main() -> int:
    """Read the configuration and hold its links."""
    parser = argparse.ArgumentParser(prog="links", description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    config = json.loads(parser.parse_args().config.read_text(encoding="utf-8"))
    # Every connection takes two files.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        asyncio.run(_serve(config))
    except asyncio.CancelledError:
        return 0
    except OSError as problem:
        sys.stderr.write(f"The links cannot be created: {problem.strerror or problem}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
