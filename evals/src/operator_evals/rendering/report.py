"""A whole page around each body, and a campaign with its trials as one file."""

from __future__ import annotations

from collections.abc import Sequence

from operator_evals.analysis import Analysis, Scored
from operator_evals.database import Recorded
from operator_evals.rendering.campaign_page import campaign_body
from operator_evals.rendering.cells import OneFile
from operator_evals.rendering.trial_page import trial_body
from operator_sre.drawing import page, style_of
from operator_sre.drawing.html import Html

__all__ = ["STYLE", "report_page", "whole"]

STYLE = style_of(__package__ or "")


def whole(title: str, body: Html) -> str:
    """A page of its own around a body."""
    return page(f"{title} - Operator", body, style=STYLE, kind="evals")


def report_page(
    recorded: Recorded, analysis: Analysis, known: Sequence[Scored], *, only_misses: bool = False
) -> str:
    """A campaign and its trials in one file; `only_misses` leaves out trials without a miss.

    A trial is shown when a link to it is followed, which a style sheet alone can do.
    """
    missed = {miss.key for miss in analysis.misses}
    held = [scored for scored in known if not only_misses or scored.facts.key in missed]
    places = OneFile.of([scored.facts.key for scored in held])
    parts = [f'<div id="campaign">{campaign_body(recorded, analysis, known, places)}</div>']
    parts += [
        f'<article class="trial" id="{places.trial("", scored.facts.key)[1:]}">'
        f"{trial_body(scored, places)}</article>"
        for scored in held
    ]
    return whole(f"Campaign {recorded.campaign.name}", Html("\n".join(parts)))
