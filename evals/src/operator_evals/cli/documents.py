"""What the commands of the evaluation harness print with --json, for their schemas."""

from __future__ import annotations

from operator_evals.app import generated, recordings, replays, views, worker
from operator_evals.campaign import Scenario
from operator_evals.conductor import Outcome
from operator_evals.generated.case import Case
from operator_sre.contract.schemas import Maybe, OneOf, Shape

__all__ = ["DOCUMENTS"]

_COMPARED = {"comparisons": list[views.Comparison]}
DOCUMENTS: dict[str, Shape] = {
    "eval analyze": {"analysis": views.Analysis, "opinions": Maybe(views.Opinions)},
    "eval cases": {"tally": replays.Tally, "cases": list[replays.Replayed]},
    "eval compare": _COMPARED,
    "eval compare-baseline": _COMPARED,
    "eval compare-variants": _COMPARED,
    "eval export": {"file": str, "format": str},
    "eval faults": {"faults": list[Scenario]},
    "eval fuzz": OneOf(
        (
            {"seed": int, "outcome": generated.Ending},
            {"tally": generated.Tally},
            {"case": Case, "outcome": generated.Ending},
        )
    ),
    "eval list": {"campaigns": list[views.CampaignView]},
    "eval record": {"recorded": recordings.Kept},
    "eval replay": {"replayed": replays.Replayed},
    "eval report": {"campaign": str, "file": str, "trials": int},
    "eval run": OneOf(({"trial": views.TrialFacts}, {"outcome": Outcome})),
    "eval show": OneOf(
        (
            {"campaign": views.CampaignView, "trials": list[views.Scored]},
            {"trial": views.Scored},
        )
    ),
    "eval work": {"did": worker.Did},
    "eval viewer": {"listening": list[str]},
}
