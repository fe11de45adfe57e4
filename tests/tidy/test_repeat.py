"""The suite measured on fresh clones: what it reads from a run, and the load that it makes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from repeat import Outcome, read_outcome, run_group, under_load
from tests.e2e.waiting import eventually

_RED = """\
FAILED tests/gate/test_judge.py::test_words[a b] - AssertionError: no
ERROR tests/lab/test_up.py::test_it_starts - RuntimeError
2 failed, 31 passed, 4 skipped, 1 warning in 5.00s
"""


def test_every_failed_test_is_named() -> None:
    failed = ("tests/gate/test_judge.py::test_words[a b]", "tests/lab/test_up.py::test_it_starts")
    assert read_outcome(_RED) == Outcome(31, 4, failed)


def test_a_run_without_tests_passed_none() -> None:
    assert read_outcome("Set-up failed: the index was out of reach") == Outcome(0, 0, ())


def _children() -> set[str]:
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=True
    )
    return set(listed.stdout.split())


def test_the_load_ends_with_its_run(tmp_path: Path) -> None:
    before = _children()
    with under_load(tmp_path, is_loaded=True):
        during = _children() - before
    assert len(during) >= 2
    assert not _children() & during
    with under_load(tmp_path, is_loaded=False):
        assert not (_children() - before) & during


# A worker that would run for long, and a command that starts it and says its pid.
_WORKER = "sleep 600 & echo $!"


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


@pytest.mark.parametrize(
    ("then", "expected"), [("", 0), ("; wait", None), ("; kill -KILL $$", -signal.SIGKILL)]
)
def test_no_worker_outlives_its_run(tmp_path: Path, then: str, expected: int | None) -> None:
    log = tmp_path / "log"
    with log.open("wb") as output:
        code = run_group(
            ["sh", "-c", _WORKER + then],
            cwd=tmp_path,
            environ=os.environ,
            output=output,
            timeout_s=3.0 if expected is None else 60.0,
        )
    assert code == expected
    worker = int(log.read_text())
    eventually(lambda: not _runs(worker), "the worker was killed")


_INTERRUPTED = """
import os, pathlib, sys
sys.path.insert(0, ".ci")
import repeat
log = pathlib.Path(sys.argv[1])
def run(python, folder, name, *, is_loaded):
    with log.open("wb") as output:
        command = ["sh", "-c", "sleep 600 & echo $!; wait"]
        repeat.run_group(command, cwd=folder, environ=os.environ, output=output, timeout_s=60.0)
repeat._run = run
repeat.main([])
"""


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_no_worker_outlives_a_run_that_is_interrupted(tmp_path: Path, number: int) -> None:
    log = tmp_path / "log"
    process = subprocess.Popen([sys.executable, "-c", _INTERRUPTED, str(log)])
    eventually(lambda: log.is_file() and log.read_text().endswith("\n"), "a worker started")
    worker = int(log.read_text())
    process.send_signal(number)
    assert process.wait(60.0) == 128 + number
    eventually(lambda: not _runs(worker), "the worker was killed")
