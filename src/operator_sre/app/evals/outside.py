"""Recordings and cases from files, each worked on by a mind, and how often it was right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from operator_sre.app.evals.replays import Replayed, replay
from operator_sre.evals.cases import cases_in, causes_around, recording_of
from operator_sre.evals.recording import read_recording
from operator_sre.evals.statistics import Share, share

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["Tally", "replay_cases", "replay_file", "tally"]


@dataclass(frozen=True, slots=True)
class Tally:
    """How often a mind was right over several recordings; what failed counts as wrong.

    `joint` is the right cause at the right component, both in the first place.
    """

    model: str
    component_at_1: Share
    component_at_3: Share
    cause_right: Share
    joint: Share
    failed: int
    tokens: int
    usd: float


async def replay_file(app: App, file: Path, model: str) -> Replayed:
    """One recording from its file."""
    return await replay(app, read_recording(file), model, name=file.name)


async def replay_cases(
    app: App,
    folder: Path,
    model: str,
    *,
    limit: int | None = None,
    tell: Callable[[Replayed], None] = lambda _: None,
) -> tuple[Replayed, ...]:
    """Every case below a folder, one after another; `tell` hears of each when it is done."""
    causes = causes_around(folder)
    done = []
    for case in cases_in(folder, limit=limit):
        one = await replay(app, recording_of(case, causes), model, name=case.name)
        done.append(one)
        tell(one)
    return tuple(done)


def tally(done: Sequence[Replayed]) -> Tally:
    """All of them together. Pure."""
    scores = [one.score for one in done]
    return Tally(
        model=done[0].model if done else "",
        component_at_1=share([one.component_at_1 for one in scores]),
        component_at_3=share([one.component_at_3 for one in scores]),
        cause_right=share([one.cause_right for one in scores]),
        joint=share([one.component_at_1 and one.cause_right for one in scores]),
        failed=sum(bool(one.problem) for one in done),
        tokens=sum(one.tokens for one in scores),
        usd=sum(one.usd for one in scores),
    )
