"""`python -m tests.subjects.bed [WAY ...]`: break the test bed in every named way, and keep score.

Generated faults on the same bed: `python -m tests.subjects.bed --generated 60`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from pathlib import Path

from tests.subjects.bed.programs import ROOT, fetch_programs, missing_programs
from tests.subjects.bed.trial import Verdict, try_way
from tests.subjects.bed.ways import WAYS

METADATA = Path(__file__).with_name("metadata")


async def run_ways(names: list[str], workers: int, kept_in: Path | None) -> list[Verdict]:
    chosen = [way for way in WAYS if not names or way.name in names]
    turns = asyncio.Semaphore(workers)

    async def run(number: int) -> Verdict:
        async with turns:
            # A process of its own, so that what one leaves behind troubles no other.
            verdict = await asyncio.to_thread(lambda: asyncio.run(try_way(chosen[number], kept_in)))
            sys.stdout.write(f"{verdict.line}\n")
            sys.stdout.flush()
            return verdict

    return list(await asyncio.gather(*(run(number) for number in range(len(chosen)))))


def run_generated(count: int, seed: int, workers: int, database: str) -> int:
    """`operator eval fuzz` with the bed as an installed subject."""
    path = os.pathsep.join([str(ROOT), str(METADATA), os.environ.get("PYTHONPATH", "")])
    argv = [sys.executable, "-m", "operator_sre", "eval", "fuzz", "bed", "-n", str(count)]
    argv += ["--seed", str(seed), "--workers", str(workers), "--database", database]
    return subprocess.run(argv, env={**os.environ, "PYTHONPATH": path}, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", nargs="*", help="named ways; without any, all of them")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--generated", type=int, default=0, help="so many generated faults instead")
    parser.add_argument("--keep", type=Path, help="keep the records of each way in this folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", default="bed.db")
    given = parser.parse_args()
    fetch_programs()
    if missing := missing_programs():
        sys.stderr.write(f"The bed cannot be made. Missing: {missing}\n")
        return 2
    if given.generated:
        return run_generated(given.generated, given.seed, given.workers, given.database)
    verdicts = asyncio.run(run_ways(given.way, given.workers, given.keep))
    good = sum(verdict.good for verdict in verdicts)
    harm = sum(bool(verdict.harm) for verdict in verdicts)
    sys.stdout.write(f"{good} of {len(verdicts)} good, harm in {harm}\n")
    return 0 if good == len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
