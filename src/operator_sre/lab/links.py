"""The links of a rig: everybody reaches a linked process through them, and they can be cut.

Run by the rig's supervisor as `python -m operator_sre.lab.links --config FILE`. A link listens as
long as its process does. SIGHUP means that the rules have changed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from operator_sre.lab.callers import callers
from operator_sre.lab.manifest import HOST
from operator_sre.lab.ports import listening
from operator_sre.lab.rules import Rules, read_rules, write_applied
from operator_sre.lab.wires import Wire

__all__ = ["Links", "main"]

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
        """Accept; OSError when somebody else has the port."""
        if self._server is None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(self._wire, HOST, self.listen, backlog=BACKLOG)

    def close(self) -> None:
        """Refuse, as a port does on which nobody listens; what stands goes on."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _wire(self) -> asyncio.Protocol:
        wire = Wire(self.to, opened=self._opened)
        wire.ended = self.wires.discard
        wire.refused = self._links.look_soon
        return wire.caller

    def _opened(self, wire: Wire) -> None:
        if self._links.count() >= WIRES_MAX:
            wire.close()
            return
        self.wires.add(wire)
        self._links.judge(self, [wire])


class Links:
    """All links of one rig, in one thread."""

    def __init__(
        self, directory: Path, *, targets: Sequence[str], links: Sequence[Mapping[str, Any]]
    ) -> None:
        self._directory = directory
        self._targets = frozenset(targets)
        self._links = [_Link(self, **each) for each in links]
        self._rules = Rules()
        self._changed = False
        self._wake = asyncio.Event()

    async def serve(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._told)
        self._rules = read_rules(self._directory)
        # All at once, so that a port which somebody else took is noticed now.
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
        """Somebody did not listen who did a moment ago."""
        self._wake.set()

    def _told(self) -> None:
        self._changed = True
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
            cut, delay_s = self._rules.between(names.get(wire.ends, ""), link.target)
            wire.rule(cut=cut, delay_s=delay_s)

    def _asks_who(self, target: str) -> bool:
        """Whether it matters who called; looking that up takes a while."""
        known = {rule for rule in self._rules.rules if rule.holds("", target)}
        return bool(set(self._rules.rules) - known)

    async def _look(self) -> None:
        """A link listens while its process does, and while nothing passes to it."""
        heard = listening()
        for link in self._links:
            cut, _ = self._rules.between("", link.target)
            if heard is None or link.to in heard or cut:
                # Somebody may have taken the port meanwhile; it is tried again.
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
        sys.stderr.write(f"The links cannot be laid: {problem.strerror or problem}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
