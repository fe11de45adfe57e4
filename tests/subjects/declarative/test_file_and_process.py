"""Probes of this machine: files and processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_protocols.domain.health import Health
from tests.e2e.waiting import eventually
from tests.subjects.declarative.trying import Tried, described

pytestmark = pytest.mark.asyncio
IDLE = """
import pathlib, sys, time
pathlib.Path(sys.argv[1], "idle").touch()
time.sleep(300)
"""
# Uses a third of a second of the processor, says so, and sleeps.
BUSY = """
import pathlib, sys, time
while time.process_time() < 0.3: pass
pathlib.Path(sys.argv[1], "busy").touch()
time.sleep(300)
"""


def looking(folder: Path, probe: str, holds: str, *, more: str = "") -> Tried:
    text = f"""\
name: a
targets: {{t: {{kind: k{more}}}}}
probes: {{it: {probe}}}
invariants: {{i: {{holds: "{holds}"}}}}
"""
    return described(folder, text)


async def test_a_file_has_an_age_a_size_and_an_end(tmp_path: Path) -> None:
    tried = looking(
        tmp_path,
        "{file: {path: backup.log, matches: 'took (?P<took>[0-9]+) s'}}",
        "it.age_s < 3600",
    )
    assert await tried.health() is Health.UNKNOWN
    seen = await tried.seen()
    assert (seen.readings["it.exists"], seen.readings["it.up"]) == (False, False)
    file = tmp_path / "backup.log"
    file.write_text("x" * 100_000 + "\nbackup took 17 s\n")
    readings = (await tried.seen()).readings
    assert readings["it.size_bytes"] == file.stat().st_size
    assert (readings["it.matched"], readings["it.took"]) == (True, 17)
    assert await tried.health() is Health.HEALTHY
    old = time.time() - 7200
    os.utime(file, (old, old))
    assert await tried.health() is Health.BROKEN


async def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    tried = looking(tmp_path, "{file: {path: pipe, matches: x}}", "it.matched")
    assert "not a regular file" in (await tried.seen()).problem


async def test_files_and_processes_are_those_of_this_machine(tmp_path: Path) -> None:
    for probe in ("{file: {path: /etc/hosts}}", "{process: {pattern: init}}"):
        tried = looking(tmp_path, probe, "it.up", more=", runs_at: 'ssh://me@there'")
        assert "commands cannot be run here" in (await tried.seen()).problem
        assert await tried.health() is Health.UNKNOWN


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has started and does nothing, known by its folder and its pid file."""
    with subprocess.Popen([sys.executable, "-c", IDLE, str(tmp_path)]) as process:
        (tmp_path / "it.pid").write_text(f"{process.pid}\n")
        eventually((tmp_path / "idle").exists, "it has started")
        yield process
        process.kill()


async def test_a_process_is_found_by_its_file_and_by_its_words(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    for probe in ("{process: {pid_file: it.pid}}", f"{{process: {{pattern: '{tmp_path}$'}}}}"):
        tried = looking(tmp_path, probe, "it.cpu_percent < 90")
        readings = (await tried.seen()).readings
        assert (readings["it.alive"], readings["it.count"]) == (True, 1)
        assert readings["it.pid"] == sleeper.pid
        assert readings["it.state"] == "running"
        rss, files = readings["it.rss_bytes"], readings["it.open_files"]
        assert isinstance(rss, int)
        assert rss > 1_000_000
        assert isinstance(files, int)
        assert files >= 3
        assert "it.cpu_percent" not in readings, "one look shows no rate"
        tried.clock.advance(10.0)
        assert await tried.health() is Health.HEALTHY
    # One more comes; nobody takes the time it had used before for a burst.
    with _started(BUSY, tmp_path) as busy:
        eventually((tmp_path / "busy").exists, "it was busy")
        tried.clock.advance(1.0)
        readings = (await tried.seen()).readings
        busy.kill()
    assert readings["it.count"] == 2
    percent = readings["it.cpu_percent"]
    assert isinstance(percent, float)
    assert percent < 20
    tried.clock.advance(10.0)
    assert await tried.health() is Health.HEALTHY, "and one less is no counter set back"


async def test_a_process_that_stopped_or_ended_is_told_apart(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    tried = looking(tmp_path, "{process: {pid_file: it.pid}}", "it.ok")
    os.kill(sleeper.pid, signal.SIGSTOP)

    def state() -> str | None:
        text = Path(f"/proc/{sleeper.pid}/stat").read_text()
        return "stopped" if text.rpartition(")")[2].split()[0] == "T" else None

    eventually(state, "it is stopped")
    readings = (await tried.seen()).readings
    assert (readings["it.alive"], readings["it.state"]) == (True, "stopped")
    assert await tried.health() is Health.BROKEN
    sleeper.kill()
    sleeper.wait(30.0)
    readings = (await tried.seen()).readings
    assert (readings["it.alive"], readings["it.count"]) == (False, 0)


async def test_a_target_knows_its_process_by_its_pid_file(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    tried = looking(tmp_path, "{file: {path: it.pid}}", "it.exists", more=", pid_file: it.pid")
    assert _pid_of(tried) == sleeper.pid
    # A file older than the process that has its number now is about somebody else.
    os.utime(tmp_path / "it.pid", (1_000_000, 1_000_000))
    assert _pid_of(tried) is None
    (tmp_path / "it.pid").write_text("nonsense")
    assert _pid_of(tried) is None
    (tmp_path / "it.pid").write_text("999999999")
    assert _pid_of(tried) == 999_999_999, "that it is gone is worth knowing"


def _started(code: str, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code, str(folder)])


def _pid_of(tried: Tried) -> int | None:
    process = tried.targets[0].process
    return process.pid if process is not None else None
