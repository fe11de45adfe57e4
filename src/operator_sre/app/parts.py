"""The parts of one service process: each starts again when it fails, and none ends another."""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operator_protocols.errors import ConflictError, OperatorError
from operator_sre import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from operator_protocols.ports import Clock

__all__ = ["Part", "PartState", "Parts", "ServiceRecord", "Start", "read_record", "sole_service"]

FILE, LOCK = "service.json", "service.lock"
BACK_OFF_S, BACK_OFF_S_MAX = 1.0, 60.0
# A part that ran for so long has recovered: its next failure is the first again.
STEADY_S = 60.0
RECORD_BYTES_MAX = 1 << 20
PROBLEM_CHARACTERS_MAX = 500
log = logging.getLogger(__name__)

# Runs a part until cancelled; it calls its argument with its address, or "", once it has started.
Start = Callable[[Callable[[str], None]], Coroutine[Any, Any, None]]


class PartState(StrEnum):
    """Where a part is in its life."""

    STARTING = "starting"
    RUNNING = "running"
    FAILED = "failed"


@dataclass(slots=True)
class Part:
    """One part as people see it: `problem` is why it failed last, `restarts` counts failures."""

    name: str
    since: str
    state: PartState = PartState.STARTING
    address: str = ""
    restarts: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ServiceRecord:
    """The last state that a service wrote into its home; `running` when its process lives."""

    running: bool
    pid: int = 0
    version: str = ""
    started_at: str = ""
    parts: tuple[Part, ...] = ()


@dataclass(slots=True)
class Parts:
    """Runs parts until cancelled, and starts each again when it ends; its record is in `home`."""

    home: Path
    clock: Clock
    changed: Callable[[], None] = lambda: None
    parts: dict[str, Part] = field(default_factory=dict)
    _starts: dict[str, Start] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _ended: asyncio.Event = field(default_factory=asyncio.Event)
    _started_at: str = ""

    @property
    def settled(self) -> bool:
        """True when every part has started, or has failed at least once."""
        return all(part.state is not PartState.STARTING for part in self.parts.values())

    async def run(self, starts: Mapping[str, Start]) -> None:
        """Run these parts until cancelled."""
        self._started_at = self._now().isoformat()
        try:
            await self.replace(starts)
            await self._ended.wait()
        finally:
            await self._stop(tuple(self._tasks))

    async def replace(self, starts: Mapping[str, Start]) -> None:
        """Stop all parts cleanly, one after another, and run these from now on.

        Listeners stop last and the agent first: what it was doing is parked, and goes on.
        """
        await self._stop(sorted(self._tasks, key=lambda name: name != "agent"))
        self._starts = dict(starts)
        self.parts = {name: Part(name, self._now().isoformat()) for name in starts}
        self._tasks = {name: asyncio.create_task(self._keep(name)) for name in starts}
        self._record()

    async def _stop(self, names: Iterable[str]) -> None:
        for name in names:
            task = self._tasks.pop(name)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _keep(self, name: str) -> None:
        part, back_off_s = self.parts[name], BACK_OFF_S
        part_task = asyncio.current_task()
        assert part_task is not None

        def ready(address: str) -> None:
            self._move(part, PartState.RUNNING, address=address)

        while True:
            started = self.clock.monotonic()
            problem = "it ended"
            try:
                await self._starts[name](ready)
            except asyncio.CancelledError:
                if part_task.cancelling():
                    raise
                problem = "it was cancelled from within"
            # One broken part must not end the others, also where a library exits.
            except (Exception, SystemExit) as error:  # noqa: BLE001
                problem = _describe(error)
            if self.clock.monotonic() - started > STEADY_S:
                back_off_s = BACK_OFF_S
            part.restarts += 1
            log.error("%s has failed and starts again in %g s: %s", name, back_off_s, problem)
            self._move(part, PartState.FAILED, problem=problem[:PROBLEM_CHARACTERS_MAX])
            await self.clock.sleep(back_off_s)
            back_off_s = min(2 * back_off_s, BACK_OFF_S_MAX)
            part.state = PartState.STARTING

    def _move(self, part: Part, state: PartState, *, address: str = "", problem: str = "") -> None:
        part.state, part.address, part.problem = state, address, problem
        part.since = self._now().isoformat()
        self._record()
        self.changed()

    def _record(self) -> None:
        record = {
            "pid": os.getpid(),
            "version": __version__,
            "started_at": self._started_at,
            "parts": [asdict(part) for part in self.parts.values()],
        }
        file = self.home / FILE
        fresh = file.with_name(f".{FILE}.{os.getpid()}")
        try:
            fresh.write_text(json.dumps(record), encoding="utf-8")
            fresh.replace(file)
        except OSError as error:  # a full home must not end what reports it
            log.error("cannot record the state of the service: %s", error)
            with suppress(OSError):
                fresh.unlink()

    def _now(self) -> datetime:
        return self.clock.now()


def _describe(error: BaseException) -> str:
    """What failed; of several parts of one part, the first that failed."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) if isinstance(error, OperatorError) else f"{type(error).__name__}: {error}"


@contextmanager
def sole_service(home: Path) -> Iterator[None]:
    """Hold the place of the one service of a home; ConflictError when another process holds it."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (home / LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConflictError(
                f"A service runs on the home {str(home)!r} already.",
                next_step="See it with: operator status",
            ) from error
        yield


def read_record(home: Path) -> ServiceRecord | None:
    """What the service of this home wrote last; None where none ever ran."""
    try:
        with (home / FILE).open("rb") as file:
            record = json.loads(file.read(RECORD_BYTES_MAX))
        parts = tuple(
            Part(**{**part, "state": PartState(part["state"])}) for part in record["parts"]
        )
        return ServiceRecord(
            _is_held(home), int(record["pid"]), record["version"], record["started_at"], parts
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return ServiceRecord(_is_held(home))


def _is_held(home: Path) -> bool:
    try:
        with (home / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
