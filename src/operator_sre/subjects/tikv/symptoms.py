"""What probes show of a part of the cluster in each of its troubles. Data."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    "ANYHOW",
    "CLOSED_IN",
    "DEAD",
    "ENDED",
    "FULL",
    "HUNG",
    "NO_FILES",
    "NO_MEMORY",
    "REPLACED",
    "RUNS",
    "STOPPED",
    "UNREACHED",
    "Predicts",
]

Predicts = Mapping[str, Mapping[str, float]]

# It does not matter how each of them came to be gone.
ANYHOW: Predicts = {
    "process": {"dead": 0.5, "stopped": 0.26, "alive": 0.2, "unknown": 0.04},
    "port": {"refused": 0.5, "silent": 0.26, "answers": 0.14, "closed": 0.05, "unknown": 0.05},
    "sockets": {"deaf": 0.5, "waiting": 0.25, "listening": 0.2, "unknown": 0.05},
    "limits": {"unknown": 0.6, "room": 0.36, "files": 0.02, "memory": 0.02},
    "log": {"quiet": 0.3, "errors": 0.4, "ended": 0.2, "unknown": 0.1},
}
# A store shows whoever does not speak gRPC out without a word, and is there all the same.
RUNS: Predicts = {
    "process": {"alive": 0.97, "dead": 0.01, "stopped": 0.01, "unknown": 0.01},
    "port": {"answers": 0.6, "closed": 0.36, "silent": 0.02, "refused": 0.01, "unknown": 0.01},
    "log": {"quiet": 0.45, "errors": 0.45, "ended": 0.05, "unknown": 0.05},
}
ENDED: Predicts = {
    "process": {"dead": 0.96, "alive": 0.01, "stopped": 0.01, "unknown": 0.02},
    "port": {"refused": 0.95, "answers": 0.01, "silent": 0.02, "closed": 0.01, "unknown": 0.01},
    "sockets": {"deaf": 0.94, "listening": 0.01, "waiting": 0.01, "unknown": 0.04},
    "limits": {"unknown": 0.97, "room": 0.01, "files": 0.01, "memory": 0.01},
    "log": {"errors": 0.6, "ended": 0.2, "quiet": 0.15, "unknown": 0.05},
}
# What ended without a word of its own, as if somebody had pulled a plug.
DEAD: Predicts = {
    **ENDED,
    "log": {
        "quiet": 0.38,
        "errors": 0.27,
        "ended": 0.2,
        "unknown": 0.05,
        "dependency": 0.09,
        "credential": 0.006,
        **dict.fromkeys(("files", "memory", "no_space", "address"), 0.001),
    },
}
# It ended, and somebody else answers in its place.
REPLACED: Predicts = {
    **ENDED,
    "port": {"answers": 0.45, "silent": 0.25, "closed": 0.25, "refused": 0.04, "unknown": 0.01},
    # Whoever cannot listen says so before it ends, unless nobody has tried to start it since.
    "log": {
        "address": 0.4,
        "quiet": 0.22,
        "ended": 0.15,
        "errors": 0.15,
        "unknown": 0.05,
        "dependency": 0.02,
        "credential": 0.004,
        **dict.fromkeys(("files", "memory", "no_space"), 0.002),
    },
}
STOPPED: Predicts = {
    "process": {"stopped": 0.97, "alive": 0.01, "dead": 0.01, "unknown": 0.01},
    "port": {"silent": 0.95, "refused": 0.02, "answers": 0.01, "closed": 0.01, "unknown": 0.01},
    "log": {"quiet": 0.45, "errors": 0.45, "ended": 0.05, "unknown": 0.05},
}
_DEAF: Predicts = {
    "process": {"alive": 0.97, "dead": 0.01, "stopped": 0.01, "unknown": 0.01},
    "port": {"silent": 0.7, "refused": 0.15, "closed": 0.1, "answers": 0.04, "unknown": 0.01},
    "log": {"quiet": 0.45, "errors": 0.45, "ended": 0.05, "unknown": 0.05},
}
# What reaches it is taken in, only that nothing does.
UNREACHED: Predicts = {
    **_DEAF,
    "process": {
        "alive": 0.6,
        "isolated": 0.34,
        "starting": 0.03,
        **dict.fromkeys(("dead", "stopped", "unknown"), 0.01),
    },
    "sockets": {"listening": 0.94, "waiting": 0.03, "deaf": 0.01, "unknown": 0.02},
}
HUNG: Predicts = {
    **_DEAF,
    "sockets": {"waiting": 0.85, "listening": 0.1, "deaf": 0.03, "unknown": 0.02},
}
# It runs and answers us, while some of the others do not hear it.
CLOSED_IN: Predicts = {
    **RUNS,
    "log": {"dependency": 0.45, "errors": 0.3, "quiet": 0.17, "ended": 0.03, "unknown": 0.05},
}
NO_FILES: Predicts = {
    "process": {"alive": 0.72, "dead": 0.25, "stopped": 0.01, "unknown": 0.02},
    "port": {"silent": 0.5, "refused": 0.3, "closed": 0.1, "answers": 0.09, "unknown": 0.01},
    "sockets": {"waiting": 0.6, "listening": 0.15, "deaf": 0.23, "unknown": 0.02},
    "limits": {"files": 0.73, "room": 0.02, "memory": 0.005, "unknown": 0.245},
    "log": {"files": 0.6, "errors": 0.12, "quiet": 0.2, "ended": 0.03, "unknown": 0.05},
}
NO_MEMORY: Predicts = {
    "process": {"dead": 0.6, "alive": 0.37, "stopped": 0.01, "unknown": 0.02},
    "port": {"refused": 0.6, "silent": 0.25, "closed": 0.08, "answers": 0.06, "unknown": 0.01},
    "sockets": {"deaf": 0.6, "waiting": 0.27, "listening": 0.1, "unknown": 0.03},
    "limits": {"memory": 0.36, "unknown": 0.6, "room": 0.03, "files": 0.01},
    "log": {"memory": 0.7, "errors": 0.1, "quiet": 0.1, "ended": 0.05, "unknown": 0.05},
}
# It goes on until it has to write, and then it ends; PD warns long before the last byte is used.
FULL: Predicts = {
    "process": {"alive": 0.77, "dead": 0.2, "stopped": 0.01, "unknown": 0.02},
    "port": {"answers": 0.5, "closed": 0.28, "refused": 0.17, "silent": 0.04, "unknown": 0.01},
    "log": {"no_space": 0.4, "quiet": 0.3, "errors": 0.2, "ended": 0.05, "unknown": 0.05},
    "sockets": {"listening": 0.74, "deaf": 0.2, "waiting": 0.04, "unknown": 0.02},
    "limits": {"room": 0.77, "unknown": 0.21, "files": 0.01, "memory": 0.01},
    "disk": {"full": 0.67, "room": 0.3, "unknown": 0.03},
}
