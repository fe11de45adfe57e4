"""Break the rig of a home in every way, print the table and record what the API had."""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from operator_lab.kubernetes.build import build
from operator_sre.subjects.kubernetes.faults import FAULTS
from tests.subjects.kubernetes.rig.calm import run_calm
from tests.subjects.kubernetes.rig.cases import CASES
from tests.subjects.kubernetes.rig.plugin_faults import break_and_heal
from tests.subjects.kubernetes.rig.trial import Score, Trial


def show(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def row(score: Score) -> str:
    """A line of the table, as Markdown."""
    detected = "no" if score.detected_s is None else f"{score.detected_s:.1f} s"
    broken = "" if score.broken_s is None else f"{score.broken_s:.1f} s"
    right = "yes" if score.right else f"no: {score.cause or '-'} at {score.blamed or '-'}"
    case = score.case
    return f"| {case.group} | {case.name} | {detected} | {broken} | {right} |"


async def calm(directory: Path) -> int:
    """Do what happens in a healthy cluster; returns how many tickets it would have opened."""
    trial = Trial(directory)
    try:
        found = await run_calm(trial)
    finally:
        await trial.close()
    show(f"{len(found)} findings in a healthy cluster: {sorted(found)}")
    return len(found)


async def run(directory: Path, names: Sequence[str], records: Path | None) -> int:
    """Run these cases, or all; returns how many were not both right and soon."""
    trial, scores = Trial(directory), list[Score]()
    show("| class | case | after the API event | after the break | cause and object |")
    show("|---|---|---|---|---|")
    try:
        for case in CASES:
            if names and case.name not in names:
                continue
            score = await trial.run(case)
            scores.append(score)
            show(row(score))
            if not score.right:
                sys.stderr.write(f"    {score.others[:6]}\n")
            if records is not None and score.right and score.case.objects:
                text = json.dumps(score.record, separators=(",", ":"))
                path = records / f"{case.name}.json.gz"
                path.write_bytes(gzip.compress(text.encode(), mtime=0))
    finally:
        await trial.close()
    good = sum(score.right and score.soon for score in scores)
    show(f"\n{good} of {len(scores)} detected within 5 s of the API event and diagnosed right")
    return len(scores) - good


async def break_all(directory: Path, names: Sequence[str]) -> int:
    """Do every fault of the plug-in, or these, and heal it; returns how many went wrong."""
    trial, wrong = Trial(directory), 0
    show("| fault | seen after | cause and object | oracle while broken | healed after |")
    show("|---|---|---|---|---|")
    try:
        for fault in FAULTS:
            if names and fault.name not in names:
                continue
            line, is_right = await break_and_heal(trial, fault)
            wrong += not is_right
            show(line)
    finally:
        await trial.close()
    show(f"\n{wrong} went wrong")
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="rig", description=__doc__)
    parser.add_argument("home", type=Path, nargs="?", default=Path())
    parser.add_argument("case", nargs="*")
    parser.add_argument("--record", type=Path, metavar="FOLDER")
    parser.add_argument("--faults", action="store_true", help="the faults of the plug-in")
    parser.add_argument("--calm", action="store_true", help="only what must open no ticket")
    parser.add_argument("--build", action="store_true", help="only build what the rig needs")
    given = parser.parse_args()
    if given.build:
        build(nodes=True, tell=show, stop=threading.Event())
        sys.exit(0)
    rig = given.home.resolve() / "lab" / "kubernetes"
    if given.calm:
        sys.exit(asyncio.run(calm(rig)))
    if given.faults:
        sys.exit(min(100, asyncio.run(break_all(rig, given.case))))
    sys.exit(min(100, asyncio.run(run(rig, given.case, given.record))))
