"""All campaigns of a database: what each measured, and how far it came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from operator_sre.drawing import plural
from operator_sre.evals.database import Recorded
from operator_sre.evals.rendering.elements import (
    Html,
    code,
    heading,
    joined,
    link,
    paragraph,
    small,
    table,
    text,
)
from operator_sre.evals.rendering.places import Places

__all__ = ["Shown", "campaigns_body", "problem_body"]

NAMES_MAX = 8


@dataclass(frozen=True, slots=True)
class Shown:
    """A campaign, and how many of its trials there are."""

    recorded: Recorded
    trials: int
    planned: int


def campaigns_body(some: Sequence[Shown], places: Places) -> Html:
    """The list, the newest first."""
    title = heading(1, text("Campaigns"))
    if not some:
        way = paragraph(
            joined(text("Nothing was measured yet. Begin with "), code("operator eval run --help"))
        )
        return joined(title, way)
    head = [text(one) for one in ("Campaign", "Begun", "Trials", "Scenarios", "Variants")]
    rows = [_row(one, places) for one in reversed(some)]
    return joined(title, table("Campaigns", head, rows, kind="list"))


def _row(one: Shown, places: Places) -> list[Html]:
    campaign = one.recorded.campaign
    subjects = dict.fromkeys(each.subject for each in campaign.scenarios)
    return [
        link(places.campaign(campaign.name), text(campaign.name or "(no name)")),
        text(one.recorded.started_at),
        _progress(one),
        joined(text(str(len(campaign.scenarios))), small(_names(list(subjects)))),
        joined(
            text(str(len(campaign.variants))),
            small(_names([each.name for each in campaign.variants])),
        ),
    ]


def _progress(one: Shown) -> Html:
    left = one.planned - one.trials
    told = f"{plural(left, 'is', 'are')} still to come" if left > 0 else "all of them"
    return joined(text(f"{one.trials} of {one.planned}"), small(told))


def _names(names: Sequence[str]) -> str:
    more = len(names) - NAMES_MAX
    told = ", ".join(names[:NAMES_MAX])
    return f"{told} and {more} more" if more > 0 else told


def problem_body(words: str, next_step: str, places: Places) -> Html:
    """What to say in the place of a page, with the way back."""
    return joined(
        Html(f"<nav>{link(places.campaigns(), text('Campaigns'))}</nav>"),
        heading(1, text("Not here")),
        paragraph(text(words), "lead"),
        paragraph(text(next_step)) if next_step else Html(""),
    )
