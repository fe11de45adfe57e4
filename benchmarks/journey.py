"""How long the whole journey takes: to detect, to repair, to prove, for each fault.

    .venv/bin/python benchmarks/journey.py [--times 3]

Promise: `operator demo` to its end in under 45 s.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OPERATOR = str(Path(sys.executable).with_name("operator"))
FAULTS = ("node_kill", "node_pause", "store_kill", "store_pause")


def play(fault: str, seed: int) -> dict[str, float]:
    """One demo; its ending in seconds."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as home:
        argv = [OPERATOR, "demo", "--fault", fault, "--seed", str(seed), "--json", "--home", home]
        done = subprocess.run(argv, stdout=subprocess.PIPE, check=True)
    end = json.loads(done.stdout.splitlines()[-1])["ending"]
    whole = time.perf_counter() - started
    return {name: end[f"{name}_s"] for name in ("detect", "repair", "proof")} | {"whole": whole}


def main() -> None:
    """Print the table of medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=3)
    times = parser.parse_args().times
    columns = ("detect", "repair", "proof", "whole")
    sys.stdout.write(f"{'fault':14}" + "".join(f"{name + ' s':>10}" for name in columns) + "\n")
    for fault in FAULTS:
        runs = [play(fault, seed) for seed in range(times)]
        medians = [statistics.median(run[name] for run in runs) for name in columns]
        row = "".join(f"{median:10.1f}" for median in medians)
        sys.stdout.write(f"{fault:14}{row}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
