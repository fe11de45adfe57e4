"""Parts of the service: each starts again alone, a replacement is clean, and one service runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from operator_protocols.errors import ConflictError, UsageError
from operator_sre.app.parts import FILE, Parts, PartState, read_record, sole_service

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)


class Clock:
    """A clock whose waits end when the test says so."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.go = asyncio.Event()

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.go.clear()
        await self.go.wait()


async def _until(probe: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not probe():  # noqa: ASYNC110  what is awaited tells nobody
            await asyncio.sleep(0)


async def _steady(ready: Callable[[str], None]) -> None:
    ready("http://127.0.0.1:1")
    await asyncio.Event().wait()


def test_a_part_that_fails_starts_again_later_each_time_and_ends_no_other(tmp_path: Path) -> None:
    async def check() -> None:
        clock, starts = Clock(), 0

        async def broken(ready: Callable[[str], None]) -> None:
            nonlocal starts
            starts += 1
            grouped = ExceptionGroup("tasks", [UsageError("the port is taken")])
            raise [grouped, ValueError("a bug")][starts % 2]

        parts = Parts(tmp_path, clock)
        running = asyncio.create_task(parts.run({"web": broken, "monitor": _steady}))
        for count, wait_s in enumerate((1.0, 2.0, 4.0), 1):
            await _until(lambda count=count: len(clock.waits) == count)  # type: ignore[misc]
            assert clock.waits[-1] == wait_s
            web, monitor = parts.parts["web"], parts.parts["monitor"]
            assert (web.state, web.restarts) == (PartState.FAILED, count)
            assert web.problem in ("the port is taken", "ValueError: a bug")
            assert (monitor.state, monitor.restarts) == (PartState.RUNNING, 0)
            assert parts.settled
            clock.go.set()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(check())


@pytest.mark.parametrize("problem", [SystemExit(1), asyncio.CancelledError()])
def test_a_part_that_exits_or_cancels_itself_ends_no_other(
    problem: BaseException, tmp_path: Path
) -> None:
    async def check() -> None:
        async def broken(ready: Callable[[str], None]) -> None:
            ready("")
            raise problem

        clock = Clock()
        parts = Parts(tmp_path, clock)
        running = asyncio.create_task(parts.run({"web": broken, "monitor": _steady}))
        await _until(lambda: len(clock.waits) == 1)
        assert parts.parts["web"].state is PartState.FAILED
        assert parts.parts["monitor"].state is PartState.RUNNING
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(check())


def test_parts_are_replaced_after_all_of_them_ended_and_the_agent_ends_first(
    tmp_path: Path,
) -> None:
    async def check() -> None:
        events: list[str] = []

        def part(name: str) -> Callable[[Callable[[str], None]], object]:
            async def run(ready: Callable[[str], None]) -> None:
                events.append(f"start {name}")
                ready("")
                try:
                    await asyncio.Event().wait()
                finally:
                    await asyncio.sleep(0)
                    events.append(f"end {name}")

            return run

        parts = Parts(tmp_path, Clock())
        first = {name: part(name) for name in ("web", "agent")}
        running = asyncio.create_task(parts.run(first))  # type: ignore[arg-type]
        await _until(lambda: len(events) == 2)
        events.clear()
        await parts.replace({"monitor": part("monitor")})  # type: ignore[dict-item]
        await _until(lambda: parts.settled)
        assert events == ["end agent", "end web", "start monitor"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert events[-1] == "end monitor"

    asyncio.run(check())


def test_the_record_tells_what_runs_and_whether_it_still_does(tmp_path: Path) -> None:
    assert read_record(tmp_path) is None

    async def check() -> None:
        parts = Parts(tmp_path, Clock())
        running = asyncio.create_task(parts.run({"web": _steady}))
        await _until(lambda: bool(parts.parts) and parts.settled)
        with sole_service(tmp_path):
            record = read_record(tmp_path)
            assert record is not None
            assert record.running
            assert record.parts[0].address == "http://127.0.0.1:1"
            with pytest.raises(ConflictError, match="already"), sole_service(tmp_path):
                pass
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(check())
    record = read_record(tmp_path)
    assert record is not None
    assert not record.running
    (tmp_path / FILE).write_text("{")
    record = read_record(tmp_path)
    assert record is not None
    assert record.parts == ()


def test_a_home_that_cannot_be_written_ends_no_part(tmp_path: Path) -> None:
    async def check() -> None:
        parts = Parts(tmp_path / "absent", Clock())
        running = asyncio.create_task(parts.run({"web": _steady}))
        await _until(lambda: bool(parts.parts) and parts.settled)
        assert parts.parts["web"].state is PartState.RUNNING
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(check())
