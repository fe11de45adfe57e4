"""How long a command takes to start, beside a bare Python, in the same run.

    .venv/bin/python benchmarks/cli_start.py [--times 20]

Promise: `operator --help` under 250 ms warm.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OPERATOR = str(Path(sys.executable).with_name("operator"))


def median_ms(argv: list[str], times: int) -> float:
    """The median wall time of a command, after one warm-up."""
    spent = []
    for _ in range(times + 1):
        started = time.perf_counter()
        subprocess.run(argv, stdout=subprocess.DEVNULL, check=False)
        spent.append((time.perf_counter() - started) * 1000)
    return statistics.median(spent[1:])


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
        }
        bare = 0.0
        sys.stdout.write(f"{'command':28}{'median ms':>10}{'ratio':>8}\n")
        for name, argv in cases.items():
            spent = median_ms(argv, times)
            bare = bare or spent
            sys.stdout.write(f"{name:28}{spent:10.1f}{spent / bare:8.1f}\n")


if __name__ == "__main__":
    main()
