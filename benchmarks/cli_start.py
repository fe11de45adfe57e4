"""How long a command takes to start, beside a bare Python, in the same run.

    .venv/bin/python benchmarks/cli_start.py [--times 20]

The wall time is what people wait. The processor time, the least of all runs, is what neighbours on
the machine disturb least: compare that one between two versions. The commands take turns.

Promises: `operator --help` under 250 ms, `gate check` under 300 ms, `tickets list` under 350 ms.
The questions of the contract are measured over a large ledger by benchmarks/answers.py.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OPERATOR = str(Path(sys.executable).with_name("operator"))


def once(argv: list[str]) -> tuple[float, float]:
    """The wall time and the processor time of one run, in milliseconds."""
    started = time.perf_counter()
    running = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    _, _, used = os.wait4(running.pid, 0)
    running.returncode = 0  # it was waited for
    wall = time.perf_counter() - started
    return wall * 1000, (used.ru_utime + used.ru_stime) * 1000


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=20)
    times = parser.parse_args().times
    with tempfile.TemporaryDirectory() as home:
        cases = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "operator --help": [OPERATOR, "--help"],
            "operator gate check true": [OPERATOR, "gate", "check", "true"],
            "operator tickets list": [OPERATOR, "tickets", "list", "--home", home],
            "operator next-action": [OPERATOR, "next-action", "--home", home],
        }
        spent: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
        for _ in range(times + 1):  # the first one warms up
            for name, argv in cases.items():
                spent[name].append(once(argv))
    head = f"{'command':28}{'median ms':>10}{'ratio':>8}{'least CPU ms':>14}{'ratio':>8}"
    sys.stdout.write(f"{head}\n")
    bare = _figures(spent["python -c pass"])
    for name, runs in spent.items():
        wall, cpu = _figures(runs)
        told = f"{wall:10.1f}{wall / bare[0]:8.1f}{cpu:14.1f}{cpu / bare[1]:8.1f}"
        sys.stdout.write(f"{name:28}{told}\n")


def _figures(runs: list[tuple[float, float]]) -> tuple[float, float]:
    """The median wall time and the least processor time, without the first run."""
    walls, cpus = zip(*runs[1:], strict=True)
    return statistics.median(walls), min(cpus)


if __name__ == "__main__":
    main()
