"""Break a rig that is up in every way and print the table: `HOME [CASE...]`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.subjects.kubernetes.rig.cases import CASES
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


async def run(directory: Path, names: Sequence[str]) -> int:
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
    finally:
        await trial.close()
    good = sum(score.right and score.soon for score in scores)
    show(f"\n{good} of {len(scores)} detected within 5 s of the API event and diagnosed right")
    return len(scores) - good


if __name__ == "__main__":
    home = Path(sys.argv[1]).resolve()
    sys.exit(min(100, asyncio.run(run(home / "lab" / "kubernetes", sys.argv[2:]))))
