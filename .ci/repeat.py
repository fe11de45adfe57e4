"""Run `.ci/run` on fresh clones of this checkout's HEAD, several times and under load.

    python3 .ci/repeat.py --runs 10                    ten runs, without load of our own
    python3 .ci/repeat.py --runs 5 --load              a hogged core, and a process that writes
    python3 .ci/repeat.py --python python3.12         with another interpreter, by name or path

Each run prints one line with its time, the load average when it started, and every failed test.
`--log FOLDER` keeps the whole output. The exit code is 0 only when every run was green. When it is
interrupted, it kills the process group of the run, and the load.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

__all__ = ["Outcome", "main", "read_outcome", "run_group", "under_load"]

_ROOT = Path(__file__).resolve().parent.parent
_RUN_S_MAX = 3600.0
_WRITE_BYTES = 16 * 1024 * 1024

_BURN = "while True: pass"
_WRITE = """
import os, sys
block = os.urandom(1 << 20)
while True:
    with open(sys.argv[1], "wb") as file:
        for _ in range(int(sys.argv[2]) // len(block)):
            file.write(block)
            file.flush()
            os.fsync(file.fileno())
"""


@dataclass(frozen=True)
class Outcome:
    """What one run printed about its tests."""

    passed: int
    skipped: int
    failed: tuple[str, ...]


def read_outcome(output: str) -> Outcome:
    """The counts of pytest's closing line, and the tests named in its summary of failures."""
    counts = {word: int(count) for count, word in re.findall(r"(\d+) (passed|skipped)\b", output)}
    failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
    return Outcome(counts.get("passed", 0), counts.get("skipped", 0), tuple(failed))


class _Stop:
    """A signal handler that exits, at once or when it is released."""

    def __init__(self) -> None:
        self.is_held = False
        self._number = 0

    def __call__(self, number: int, frame: object) -> None:
        self._number = number
        if not self.is_held:
            sys.exit(128 + number)

    def release(self) -> None:
        self.is_held = False
        if self._number:
            sys.exit(128 + self._number)


_stop = _Stop()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


@contextmanager
def under_load(folder: Path, *, is_loaded: bool) -> Iterator[None]:
    """Keep one core and the disk busy, so that tests have to wait for both."""
    if not is_loaded:
        yield
        return
    core = min(os.sched_getaffinity(0))
    write = [sys.executable, "-c", _WRITE, str(folder / "written"), str(_WRITE_BYTES)]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        processes.append(subprocess.Popen([sys.executable, "-c", _BURN]))
        os.sched_setaffinity(processes[0].pid, {core})
        processes.append(subprocess.Popen(write))
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run_group(
    command: Sequence[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
    output: BinaryIO,
    timeout_s: float,
) -> int | None:
    """The exit code of a command, None when it timed out. No process of its group outlives it.

    pytest forks its workers, and killing pytest alone leaves them running.
    """
    # A signal that interrupts us while the command starts would leave its group behind.
    _stop.is_held = True
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        _stop.release()
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _run(python: str, folder: Path, log: Path, *, is_loaded: bool) -> bool:
    """One clone, one run, one line; whether it was green."""
    clone = folder / "clone"
    subprocess.run(["git", "clone", "--quiet", str(_ROOT), str(clone)], check=True)
    # Called from `make repeat`, our own ARGS must not become those of the runs.
    ours = {"ARGS", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS"}
    environ = {name: value for name, value in os.environ.items() if name not in ours}
    environ |= {"CI": "true"}
    if python:
        environ |= {"PYTHON": python}
    started, load = time.monotonic(), os.getloadavg()[0]
    with under_load(folder, is_loaded=is_loaded), log.open("wb") as file:
        code = run_group(
            ["bash", ".ci/run"], cwd=clone, environ=environ, output=file, timeout_s=_RUN_S_MAX
        )
    took_s = time.monotonic() - started
    outcome = read_outcome(log.read_text(errors="replace"))
    words = [
        {0: "green", None: "timed out"}.get(code, f"exit {code}"),
        f"{int(took_s // 60)} min {int(took_s % 60):02} s",
        f"{outcome.passed} passed, {len(outcome.failed)} failed, {outcome.skipped} skipped",
        f"load {load:.1f} at start" + (", then a hogged core and disk" if is_loaded else ""),
        *([python] if python else []),
    ]
    _say("\n".join(["  ".join(words), *(f"    {name}" for name in outcome.failed)]))
    return code == 0


def main(arguments: list[str]) -> int:
    """Run all of it; the exit code is 0 when each run was green."""
    parser = argparse.ArgumentParser(description="Run .ci/run on fresh clones, and count.")
    parser.add_argument("--runs", type=int, default=1, help="runs for each interpreter")
    parser.add_argument("--load", action="store_true", help="hog one core and the disk")
    parser.add_argument("--python", action="append", default=[], help="an interpreter to run with")
    parser.add_argument("--log", type=Path, help="a folder that keeps the output of each run")
    options = parser.parse_args(arguments)
    # Each of these unwinds through the `finally` that kills the run and the load.
    for stop_signal in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(stop_signal, _stop)
    green = total = 0
    with tempfile.TemporaryDirectory(prefix="repeat-") as scratch:
        logs = options.log or Path(scratch)
        logs.mkdir(parents=True, exist_ok=True)
        for python in options.python or [""]:
            for number in range(options.runs):
                total += 1
                name = python.strip("/").replace("/", "-") or "python"
                log = logs / f"{name}-{number + 1}.log"
                with tempfile.TemporaryDirectory(dir=scratch) as folder:
                    green += _run(python, Path(folder), log, is_loaded=options.load)
    _say(f"{green} of {total} runs were green")
    return 0 if green == total else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
