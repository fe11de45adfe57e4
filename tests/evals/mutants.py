"""Tests the yardstick: the same generated faults for the product and for mutated products.

    python -m tests.evals.mutants FOLDER [--subject etcd] [--cases 6] [--seed 1]

FOLDER keeps the facts, so that an interrupted measurement is continued.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from operator_evals.app.generated import Ending, Wanted, load_generated, run_generated
from operator_evals.conductor import Progress
from operator_lab.cli.demo import this_program
from operator_sre.config import load_config
from tests.evals.mutant import MUTANTS
from tests.evals.results import AGENT, tally_table

__all__ = ["main"]

MUTANT = Path(__file__).with_name("mutant.py")
PRODUCT = "the product"


async def _measure(folder: Path, wanted: Wanted, name: str) -> int:
    """Run the cases that are missing; how many the harness failed."""
    config = load_config(flags={"home": str(folder / "home")}, environ={}, cwd=folder)
    command = (sys.executable, "-P", str(MUTANT), name)

    def tell(progress: Progress, ending: Ending | None) -> None:
        if progress.last is not None and ending is not None:
            sys.stderr.write(f"{name}: seed {progress.last.seed}, {ending.value}\n")

    ran = await run_generated(
        config,
        wanted,
        command=this_program() if name == PRODUCT else command,
        tell=tell,
        database=folder / f"{wanted.subject}-{name.replace(' ', '-')}.db",
    )
    return ran.failed


def main(words: Sequence[str]) -> int:
    """Run what is missing; the exit code says whether the harness failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--subject", default="etcd")
    parser.add_argument("--cases", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(words)
    folder: Path = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    wanted = Wanted(given.subject, given.cases, given.seed, AGENT, given.workers)
    names = (PRODUCT, *MUTANTS)
    failed = sum(asyncio.run(_measure(folder, wanted, name)) for name in names)
    tallies = []
    for name in names:
        database = folder / f"{wanted.subject}-{name.replace(' ', '-')}.db"
        found = load_generated(database, wanted.subject, AGENT).tally
        tallies.append(replace(found, subject=name))
    sys.stdout.write(f"{tally_table(tallies)}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
