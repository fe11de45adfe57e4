"""Measures the reasoner on generated faults of all embedded subjects, and prints one table.

    python -m tests.evals.measure FOLDER [--seed 1000] [--cases 150] [--stand-in-cases 40]

FOLDER keeps the facts: the same command at the same commit runs only the cases that are missing,
so a measurement may take several sittings. TiKV runs on stand-ins for its servers.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from operator_evals.app.generated import load_generated
from tests.engines.tikv.standin import install
from tests.evals.results import AGENT, tally_table

__all__ = ["main"]

SUBJECTS = ("etcd", "postgres", "ratelimiter")
STAND_IN = "tikv"


def main(words: Sequence[str]) -> int:
    """Run what is missing, subject by subject; the exit code says whether the harness failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--cases", type=int, default=150)
    parser.add_argument("--stand-in-cases", type=int, default=40)
    # On two cores so many cases keep both busy; with more, cases wait for a processor and are void.
    parser.add_argument("--workers", type=int, default=5)
    given = parser.parse_args(words)
    folder: Path = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    with tempfile.TemporaryDirectory() as programs:
        path = f"{install(Path(programs) / 'tikv')}{os.pathsep}{os.environ.get('PATH', '')}"
        for subject in (*SUBJECTS, STAND_IN):
            count = given.stand_in_cases if subject == STAND_IN else given.cases
            command = [
                *(str(Path(sys.executable).with_name("operator")), "eval", "fuzz", subject),
                *("-n", str(count), "--seed", str(given.seed), "--workers", str(given.workers)),
                *("--database", str(folder / f"{subject}.db")),
                *("--export", str(folder / f"{subject}.jsonl")),
                *(("--stand-in",) if subject == STAND_IN else ()),
            ]
            environment = {**os.environ, "PATH": path, "OPERATOR_HOME": str(folder / "home")}
            failed += subprocess.call(command, env=environment) != 0
    known = [subject for subject in (*SUBJECTS, STAND_IN) if (folder / f"{subject}.db").is_file()]
    tallies = [load_generated(folder / f"{name}.db", name, AGENT).tally for name in known]
    sys.stdout.write(f"{tally_table(tallies)}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
