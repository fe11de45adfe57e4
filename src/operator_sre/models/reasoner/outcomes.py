"""The outcomes of probes, and how probable they are at a healthy target."""

from __future__ import annotations

from collections.abc import Mapping

from operator_sre.models.reasoner.symptoms import REASONS, TROUBLES

__all__ = [
    "CHANGES",
    "DECISIVE",
    "DECISIVE_SHARE",
    "HEALTHY",
    "ISOLATED_SHARE",
    "KINDS_OF",
    "OUTCOMES",
    "SUFFERING",
    "WORDS",
    "chance",
]

# The text of the violations: it costs no probe.
WORDS = "words"
# What became different at a target since it was healthy: it costs no probe either.
CHANGES = "changes"

# What a log may name with some causes; other reasons are hardly ever named wrongly.
_IN_A_LOG = ("no_space", "files", "memory", "address", "credential", "dependency")
DECISIVE = tuple(reason for reason in REASONS if reason not in _IN_A_LOG)

OUTCOMES: Mapping[str, tuple[str, ...]] = {
    "process": ("alive", "starting", "isolated", "dead", "stopped", "unknown"),
    "port": ("answers", "silent", "refused", "closed", "unknown"),
    "log": ("quiet", "errors", *REASONS, "ended", "unknown"),
    "sockets": ("listening", "elsewhere", "waiting", "deaf", "unknown"),
    "limits": ("room", "files", "memory", "unknown"),
    "disk": ("room", "full", "unknown"),
    CHANGES: ("none", "moved"),
    WORDS: ("nothing", *TROUBLES),
}
# Outcomes that are special cases of another: a table without them means the general outcome.
KINDS_OF: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "process": {"alive": ("starting", "isolated")},
    "log": {"errors": REASONS},
}
KIND_SHARE = 0.05
# A log hardly names such a reason when another one is true.
DECISIVE_SHARE = 0.0004
# A container without a network was disconnected on purpose: rare unless a cause predicts it.
ISOLATED_SHARE = 0.0001
RARE = 0.01

# The outcomes of a probe at a healthy target.
HEALTHY: Mapping[str, Mapping[str, float]] = {
    "process": {
        "alive": 0.94 * (1.0 - ISOLATED_SHARE),
        "starting": 0.03,
        "isolated": 0.94 * ISOLATED_SHARE,
        **dict.fromkeys(("dead", "stopped", "unknown"), 0.01),
    },
    "port": {"answers": 0.90, "silent": 0.01, "refused": 0.01, "closed": 0.07, "unknown": 0.01},
    "log": {
        "quiet": 0.70 - DECISIVE_SHARE * len(DECISIVE),
        "errors": 0.09,
        **dict.fromkeys(_IN_A_LOG, 0.01),
        **dict.fromkeys(DECISIVE, DECISIVE_SHARE),
        "ended": 0.10,
        "unknown": 0.05,
    },
    "sockets": {
        "listening": 0.87,
        "elsewhere": 0.01,
        "waiting": 0.07,
        "deaf": 0.02,
        "unknown": 0.03,
    },
    "limits": {"room": 0.94, "files": 0.005, "memory": 0.005, "unknown": 0.05},
    "disk": {"room": 0.968, "full": 0.002, "unknown": 0.03},
    CHANGES: {"none": 0.997, "moved": 0.003},
    WORDS: {
        "nothing": 0.46,
        "refused": 0.15,
        "silence": 0.15,
        **{
            name: 0.24 / (len(TROUBLES) - 2)
            for name in TROUBLES
            if name not in ("refused", "silence")
        },
    },
}


# The same at a healthy target whose dependency is broken.
SUFFERING: Mapping[str, Mapping[str, float]] = {
    "log": {
        "quiet": 0.35 - DECISIVE_SHARE * len(DECISIVE),
        "dependency": 0.3,
        "errors": 0.2,
        "ended": 0.05,
        "unknown": 0.05,
        **dict.fromkeys(("no_space", "files", "memory", "address", "credential"), 0.01),
        **dict.fromkeys(DECISIVE, DECISIVE_SHARE),
    },
}


def chance(table: Mapping[str, float], probe: str, outcome: str) -> float:
    """The probability of an outcome by a table, which may know only its general outcome."""
    for parent, kinds in KINDS_OF.get(probe, {}).items():
        if parent not in table or any(kind in table for kind in kinds):
            continue
        if outcome in kinds:
            return table[parent] * _share(outcome)
        if outcome == parent:
            return table[parent] * (1.0 - sum(_share(kind) for kind in kinds))
    rare = DECISIVE_SHARE if probe == "log" and outcome in DECISIVE else RARE
    return table.get(outcome, rare)


def _share(kind: str) -> float:
    if kind == "isolated":
        return ISOLATED_SHARE
    return DECISIVE_SHARE if kind in DECISIVE else KIND_SHARE
