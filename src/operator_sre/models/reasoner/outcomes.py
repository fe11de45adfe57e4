"""The outcomes of probes, how probable they are at a healthy target, and what words mean."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = [
    "HEALTHY",
    "ISOLATED_SHARE",
    "KINDS_OF",
    "OUTCOMES",
    "SUFFERING",
    "TROUBLES",
    "WORDS",
    "chance",
    "meaning",
]

# The text of the violations: it costs no probe.
WORDS = "words"

# Which trouble a text names, the most specific first. The texts are those of other systems: log
# lines, the output of commands, alerts. Findings of subjects state their trouble as data.
TROUBLES: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        # Only in tickets that were stored before findings stated their trouble.
        "unconfirmed": r"own (look|checks?|observations?) finds? nothing wrong",
        "no_space": r"no space left|disk (is )?(nearly |almost )?full|\bENOSPC\b|write to its disk"
        r"|quota exceeded|disk[_ ](full|space)",
        "files": r"too many open files|\bEMFILE\b|\bENFILE\b|file descriptors?\b",
        "memory": r"out of memory|cannot allocate|\bOOM\b|\bENOMEM\b|memory limit",
        "address": r"address already in use|\bEADDRINUSE\b|port (is )?(already )?(taken|in use)",
        "credential": r"wrong ?pass|no ?auth\b|password|unauthori[sz]ed|authenticat|forbidden"
        r"|permission denied|credential|access denied|certificate",
        "quorum": r"quorum|majority|no leader",
        "drift": r"drift|differs?\b|configur|mismatch|settings?\b",
        "overload": r"overload|saturat|too many (requests|connections)|queue (is )?full|throttl",
        "log": r"\blog\b|\blog_|logs\b",
        "slow": r"latency|slow|\btake up to\b|\blate\b",
        "dependency": r"(cannot|could not|failed to|unable to) (reach|connect)|unreachable"
        r"|connection to \S+ (failed|lost|refused)|upstream|\bis lost\b",
        "refused": r"refused|connection reset",
        "silence": r"in time|timed? ?out|does not answer|no answer",
    }.items()
}
_IN_A_LOG = ("no_space", "files", "memory", "address", "credential", "dependency")

OUTCOMES: Mapping[str, tuple[str, ...]] = {
    "process": ("alive", "starting", "isolated", "dead", "stopped", "unknown"),
    "port": ("answers", "silent", "refused", "closed", "unknown"),
    "log": ("quiet", "errors", *_IN_A_LOG, "ended", "unknown"),
    "sockets": ("listening", "waiting", "deaf", "unknown"),
    "limits": ("room", "files", "memory", "unknown"),
    "disk": ("room", "full", "unknown"),
    WORDS: ("nothing", *TROUBLES),
}
# Outcomes that are special cases of another: a table without them means the general outcome.
KINDS_OF: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "process": {"alive": ("starting", "isolated")},
    "log": {"errors": _IN_A_LOG},
}
KIND_SHARE = 0.05
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
        "quiet": 0.70,
        "errors": 0.09,
        **dict.fromkeys(_IN_A_LOG, 0.01),
        "ended": 0.10,
        "unknown": 0.05,
    },
    "sockets": {"listening": 0.88, "waiting": 0.07, "deaf": 0.02, "unknown": 0.03},
    "limits": {"room": 0.94, "files": 0.005, "memory": 0.005, "unknown": 0.05},
    "disk": {"room": 0.96, "full": 0.01, "unknown": 0.03},
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
        "quiet": 0.35,
        "dependency": 0.3,
        "errors": 0.2,
        "ended": 0.05,
        "unknown": 0.05,
        **dict.fromkeys(("no_space", "files", "memory", "address", "credential"), 0.01),
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
    return table.get(outcome, RARE)


def _share(kind: str) -> float:
    return ISOLATED_SHARE if kind == "isolated" else KIND_SHARE


def meaning(text: str, *, among: tuple[str, ...] = tuple(TROUBLES)) -> str:
    """Which trouble a text names, or ""."""
    return next((name for name in among if TROUBLES[name].search(text)), "")
