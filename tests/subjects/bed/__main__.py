"""`python -m tests.subjects.bed [WAY ...]`: break the test bed in every named way, and keep score.

Generated faults on the same bed: `python -m tests.subjects.bed --generated 60`. With `--results`,
ways that the file has a verdict of are not run again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from tests.subjects.bed.programs import ROOT, fetch_programs, missing_programs
from tests.subjects.bed.trial import Verdict, try_way
from tests.subjects.bed.ways import WAYS

METADATA = Path(__file__).with_name("metadata")


def run_alone(name: str, kept_in: Path | None) -> int:
    """One way in this process; its verdict as a line of JSON."""
    (way,) = [way for way in WAYS if way.name == name]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    verdict = asyncio.run(try_way(way, kept_in))
    sys.stdout.write(f"{json.dumps(asdict(verdict))}\n")
    return 0


def read_verdict(line: str | bytes) -> Verdict:
    """A verdict from its line of JSON."""
    found = json.loads(line)
    tuples = ("named", "ran", "harm")
    return Verdict(**{**found, **{key: tuple(found[key]) for key in tuples}})


async def run_ways(
    names: list[str], workers: int, kept_in: Path | None, results: Path | None
) -> list[Verdict]:
    """Each in a process of its own, so that what one leaves behind troubles no other."""
    known: dict[str, Verdict] = {}
    if results is not None and results.exists():
        verdicts = map(read_verdict, results.read_text(encoding="utf-8").splitlines())
        known = {verdict.way: verdict for verdict in verdicts if verdict.ending != "void"}
    chosen = [way.name for way in WAYS if not names or way.name in names]
    turns = asyncio.Semaphore(workers)

    async def run(name: str) -> Verdict:
        if name in known:
            return known[name]
        keep = ["--keep", str(kept_in)] if kept_in is not None else []
        async with turns:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.subjects.bed", "--alone", *keep, name),
                stdout=subprocess.PIPE,
                cwd=ROOT,
            )
            try:
                output, _ = await process.communicate()
            except asyncio.CancelledError:
                process.terminate()
                await process.wait()
                raise
            try:
                verdict = read_verdict(output.splitlines()[-1])
            except (IndexError, ValueError):
                verdict = Verdict(name, "void", good=False, problem="its process failed")
            sys.stdout.write(f"{verdict.line}\n")
            sys.stdout.flush()
            if results is not None:
                with results.open("a", encoding="utf-8") as file:
                    file.write(f"{json.dumps(asdict(verdict))}\n")
            return verdict

    return list(await asyncio.gather(*map(run, chosen)))


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
    parser.add_argument("--results", type=Path, help="keep the verdicts in this file, and resume")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", default="bed.db")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.alone:
        return run_alone(given.way[0], given.keep)
    fetch_programs()
    if missing := missing_programs():
        sys.stderr.write(f"The bed cannot be made. Missing: {missing}\n")
        return 2
    if given.generated:
        return run_generated(given.generated, given.seed, given.workers, given.database)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    verdicts = asyncio.run(run_ways(given.way, given.workers, given.keep, given.results))
    good = sum(verdict.good for verdict in verdicts)
    harm = sum(bool(verdict.harm) for verdict in verdicts)
    sys.stdout.write(f"{good} of {len(verdicts)} good, harm in {harm}\n")
    return 0 if good == len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
