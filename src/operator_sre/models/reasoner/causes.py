"""Causes that serve every subject: what each predicts, and what ends it. Data, not code."""

from __future__ import annotations

from collections.abc import Mapping

from operator_protocols.domain.cause import Cause, Remedy
from operator_protocols.domain.verdict import Risk

__all__ = ["GENERIC", "HEALTHY", "UNEXPLAINED"]

# What a probe shows at a target that has nothing wrong of its own.
HEALTHY: Mapping[str, Mapping[str, float]] = {
    "process": {"alive": 0.97, "dead": 0.01, "stopped": 0.01, "unknown": 0.01},
    "port": {"answers": 0.96, "silent": 0.01, "refused": 0.01, "closed": 0.01, "unknown": 0.01},
    "log": {"quiet": 0.70, "errors": 0.15, "ended": 0.10, "unknown": 0.05},
}

_RESTART = Remedy(
    tool="restart_node",
    sentence="start it again",
    trade_off="what it held in memory is lost, and it is away for a moment",
    risk=Risk.MEDIUM,
    reversible=False,
)
_RESUME = Remedy(
    tool="resume_node",
    sentence="let it go on where it was stopped",
    trade_off="it goes on with whatever it was doing, and its clients may have given up",
    risk=Risk.LOW,
    reversible=True,
)

GENERIC: tuple[Cause, ...] = (
    Cause(
        name="process_dead",
        sentence="its process is gone",
        prior=0.5,
        predicts={
            "process": {"dead": 0.96, "alive": 0.01, "stopped": 0.01, "unknown": 0.02},
            "port": {
                "refused": 0.95,
                "answers": 0.02,
                "silent": 0.01,
                "closed": 0.01,
                "unknown": 0.01,
            },
            "log": {"quiet": 0.45, "errors": 0.25, "ended": 0.25, "unknown": 0.05},
        },
        remedies=(_RESTART,),
    ),
    Cause(
        name="process_paused",
        sentence="its process is stopped and gets no processor time",
        prior=0.15,
        predicts={
            "process": {"stopped": 0.97, "alive": 0.01, "dead": 0.01, "unknown": 0.01},
            "port": {
                "silent": 0.95,
                "refused": 0.02,
                "answers": 0.01,
                "closed": 0.01,
                "unknown": 0.01,
            },
            "log": {"quiet": 0.75, "errors": 0.15, "ended": 0.05, "unknown": 0.05},
        },
        remedies=(_RESUME, _RESTART),
    ),
    Cause(
        name="process_hung",
        sentence="its process runs but serves nobody",
        prior=0.1,
        predicts={
            "process": {"alive": 0.97, "dead": 0.01, "stopped": 0.01, "unknown": 0.01},
            "port": {
                "silent": 0.60,
                "refused": 0.20,
                "closed": 0.15,
                "answers": 0.04,
                "unknown": 0.01,
            },
            "log": {"quiet": 0.45, "errors": 0.45, "ended": 0.05, "unknown": 0.05},
        },
        remedies=(_RESTART,),
    ),
)

UNEXPLAINED = Cause(
    name="unexplained",
    sentence="none of the causes known here explains it",
    prior=0.05,
    predicts={
        "process": {"alive": 0.85, "dead": 0.05, "stopped": 0.05, "unknown": 0.05},
        "port": {"answers": 0.7, "silent": 0.1, "refused": 0.1, "closed": 0.05, "unknown": 0.05},
        "log": {"quiet": 0.4, "errors": 0.4, "ended": 0.1, "unknown": 0.1},
    },
)
