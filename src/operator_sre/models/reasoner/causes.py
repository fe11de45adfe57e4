"""Causes that apply to every subject: what each predicts, and its remedies. Data, not code."""

from __future__ import annotations

from collections.abc import Mapping

from operator_protocols.domain.cause import Cause, Remedy
from operator_protocols.domain.verdict import Risk
from operator_sre.models.reasoner.outcomes import (
    CHANGES,
    DECISIVE,
    DECISIVE_SHARE,
    HEALTHY,
    ISOLATED_SHARE,
    OUTCOMES,
    WORDS,
)

__all__ = [
    "DEAD",
    "ENDING",
    "GENERIC",
    "LIKE",
    "NAMED_IN_LOGS",
    "NEEDS_FAILURE",
    "NEEDS_OTHERS",
    "PATIENCE",
    "UNEXPLAINED",
    "VAGUE",
]

Table = Mapping[str, float]

# The remedy is to wait: no tool is called, and the proof waits.
PATIENCE = "wait"
FREE = (WORDS, CHANGES)  # evidence that no probe asks for
# Causes between a target and its dependency, so the target must have one.
NEEDS_OTHERS = frozenset({"dependency_unreachable"})
# Vague causes: used only for subjects without causes of their own.
VAGUE = frozenset({"wrong_answer"})
DEAD = "process_dead"
# Causes that show only after a start did not help.
NEEDS_FAILURE = frozenset({"start_fails"})
# Causes that end a process or leave it running. Where one of ENDING ends it, it breaks and shows
# what the cause of a dead process does; what a log names needs no such help.
ENDING = frozenset({"disk_full"})
NAMED_IN_LOGS = frozenset({"data_unusable", "data_missing", "files_denied", "limit_reached"})
# A subject that describes the cause on the right describes by it where the left one can be, and
# what that breaks and shows.
LIKE: Mapping[str, str] = {
    **dict.fromkeys(
        ("configuration_rejected", "lock_file_left", "removed_from_cluster", "start_fails"), DEAD
    ),
    "listens_elsewhere": "process_hung",
}


def _table(probe: str, chances: Table) -> Table:
    """A complete table: outcomes that are not named share the remaining probability."""
    usual: Table = {"isolated": ISOLATED_SHARE} if probe == "process" else {}
    usual = dict.fromkeys(DECISIVE, DECISIVE_SHARE) if probe == "log" else usual
    named = {**usual, **chances}
    rest = [outcome for outcome in OUTCOMES[probe] if outcome not in named]
    left = 1.0 - sum(named.values())
    return {**named, **{outcome: left / len(rest) for outcome in rest}}


def _predicts(**tables: Table) -> Mapping[str, Table]:
    return {probe: _table(probe, chances) for probe, chances in tables.items()}


_RUNS: Table = {"alive": 0.94, "starting": 0.03}
_GONE: Table = {"dead": 0.96, "unknown": 0.02}
_ANSWERS: Table = {"answers": 0.85, "closed": 0.11}
_MUTE: Table = {"silent": 0.75, "closed": 0.17, "refused": 0.03, "answers": 0.04}
_TALKS: Table = {"quiet": 0.42, "errors": 0.34, "ended": 0.05, "unknown": 0.05}
PREVENTED = 0.005
NAMED_IN_LOG = 0.01
_FELL: Table = {"dead": 0.96, "unknown": 0.02, "starting": 0.012}
_REFUSES: Table = {"refused": 0.97, "answers": 0.004, "closed": 0.004, "silent": 0.012}


_DECISIVE_LOG = {"errors": 0.03, "quiet": 0.02, "ended": 0.02, "unknown": 0.02}


def _named_in_log(name: str, sentence: str, reason: str) -> Cause:
    """Ends a process, prevents its start or fails its requests, for a reason that the log names.

    Only people know what to do about it. It explains little when the log does not name it.
    """
    return Cause(
        name=name,
        sentence=sentence,
        prior=NAMED_IN_LOG,
        predicts=_predicts(
            process={"dead": 0.55, "alive": 0.38, "starting": 0.04},
            port={"refused": 0.65, "answers": 0.1, "closed": 0.15, "silent": 0.08},
            sockets={"deaf": 0.5, "listening": 0.3, "waiting": 0.15},
            limits={"unknown": 0.55, "room": 0.42},
            log={reason: 0.9, **_DECISIVE_LOG},
        ),
    )


def _prevent_start(name: str, sentence: str, reason: str) -> Cause:
    """Prevents a start, for a reason that the log names. Only people know what to do about it.

    It is improbable until the log names the reason, and explains little when the log does not.
    """
    return Cause(
        name=name,
        sentence=sentence,
        prior=PREVENTED,
        predicts=_predicts(
            process=_FELL,
            port=_REFUSES,
            sockets={"deaf": 0.95, "unknown": 0.04},
            limits={"unknown": 0.97},
            log={reason: 0.9, **_DECISIVE_LOG},
        ),
    )


_RESTART = Remedy(
    tool="restart_node",
    sentence="restart the process",
    trade_off="its in-memory state is lost, and it is unavailable for a few seconds",
    risk=Risk.MEDIUM,
    reversible=False,
)
_RESUME = Remedy(
    tool="resume_node",
    sentence="resume the process (SIGCONT)",
    trade_off="the process continues where it stopped; its clients may have timed out",
    risk=Risk.LOW,
    reversible=True,
)
_WAIT = Remedy(
    tool=PATIENCE,
    sentence="wait until the process is ready",
    trade_off="it is unavailable until then, and nothing is changed",
    risk=Risk.LOW,
    reversible=True,
)

GENERIC: tuple[Cause, ...] = (
    Cause(
        name="process_dead",
        sentence="the process is not running",
        prior=0.5,
        predicts=_predicts(
            process=_GONE,
            port={"refused": 0.97, "answers": 0.003, "closed": 0.003, "silent": 0.01},
            sockets={"deaf": 0.94, "unknown": 0.04},
            limits={"unknown": 0.96},
            log={"quiet": 0.4, "errors": 0.22, "ended": 0.23, "unknown": 0.05},
        ),
        remedies=(_RESTART,),
    ),
    Cause(
        name="process_paused",
        sentence="the process is stopped (SIGSTOP) and gets no CPU time",
        prior=0.15,
        predicts=_predicts(
            process={"stopped": 0.97},
            port={"silent": 0.95, "refused": 0.02},
            sockets={"waiting": 0.85, "listening": 0.12},
            limits={"room": 0.9, "unknown": 0.06},
            log={"quiet": 0.7, "errors": 0.15, "ended": 0.05, "unknown": 0.05},
        ),
        remedies=(_RESUME, _RESTART),
    ),
    Cause(
        name="process_hung",
        sentence="the process hangs: it runs but answers no clients",
        prior=0.1,
        predicts=_predicts(
            process=_RUNS,
            port=_MUTE,
            sockets={"waiting": 0.9, "listening": 0.05, "deaf": 0.02},
            limits={"room": 0.94, "unknown": 0.05},
            log=_TALKS,
        ),
        remedies=(_RESTART,),
    ),
    Cause(
        name="not_listening",
        sentence="the process runs but does not listen on its port",
        prior=0.06,
        predicts=_predicts(
            process=_RUNS,
            port={"refused": 0.96, "silent": 0.02},
            sockets={"deaf": 0.85, "listening": 0.11},
            limits={"room": 0.94, "unknown": 0.05},
            log=_TALKS,
        ),
        remedies=(_RESTART,),
    ),
    Cause(
        name="process_starting",
        sentence="the process has just started and is not ready yet",
        prior=0.06,
        predicts=_predicts(
            process={"starting": 0.95, "alive": 0.02},
            port={"refused": 0.65, "silent": 0.15, "closed": 0.1, "answers": 0.08},
            sockets={"deaf": 0.5, "listening": 0.3, "waiting": 0.15},
            log={"quiet": 0.5, "errors": 0.15, "ended": 0.25, "unknown": 0.04},
        ),
        remedies=(_WAIT,),
    ),
    Cause(  # only people know whose process it is, and whether it may be stopped
        name="port_occupied",
        sentence="another process uses its port, so it cannot start",
        prior=0.04,
        predicts=_predicts(
            process=_GONE,
            port={"answers": 0.45, "silent": 0.3, "closed": 0.2, "refused": 0.04},
            sockets={"deaf": 0.94, "unknown": 0.04},
            limits={"unknown": 0.96},
            log={"address": 0.3, "ended": 0.25, "quiet": 0.25, "errors": 0.1},
            words={"address": 0.2, "nothing": 0.3, "silence": 0.2, "refused": 0.1},
        ),
    ),
    _prevent_start(
        "configuration_rejected", "its configuration is rejected, so it cannot start", "config"
    ),
    _named_in_log("data_unusable", "the data on its disk is damaged", "corrupt"),
    _named_in_log("data_missing", "a file or data that it needs is missing", "missing"),
    _named_in_log("files_denied", "it may not use a file that it needs", "denied"),
    _named_in_log("limit_reached", "it has reached a limit of processes or of file size", "limit"),
    _prevent_start(
        "lock_file_left",
        "a lock or PID file says that it already runs, so it cannot start",
        "lock_file",
    ),
    _prevent_start(
        "removed_from_cluster", "the other members have removed it from the cluster", "removed"
    ),
    Cause(
        name="start_fails",
        sentence="it does not stay up: it exits again after every start",
        prior=PREVENTED,
        predicts=_predicts(
            process=_FELL,
            port=_REFUSES,
            sockets={"deaf": 0.95, "unknown": 0.04},
            limits={"unknown": 0.97},
            log={"errors": 0.4, "quiet": 0.25, "ended": 0.25, "unknown": 0.05},
        ),
    ),
    Cause(  # only people know which of the two ports is right
        name="listens_elsewhere",
        sentence="it listens on another port than its clients use",
        prior=0.06,
        predicts=_predicts(
            process=_RUNS,
            port={"refused": 0.95, "silent": 0.03},
            sockets={"elsewhere": 0.97},
            limits={"room": 0.94, "unknown": 0.05},
            log=_TALKS,
            changes={"moved": 0.8},
        ),
    ),
    Cause(
        name="certificate_rejected",
        sentence="a certificate is rejected: it has expired, or is for another name or authority",
        prior=0.01,
        predicts=_predicts(
            process=_RUNS,
            port=_ANSWERS,
            log={"tls": 0.7, "errors": 0.15, "quiet": 0.1},
            words={"credential": 0.5, "nothing": 0.3, "refused": 0.05, "silence": 0.05},
        ),
    ),
    Cause(
        name="name_not_resolved",
        sentence="it cannot resolve the name of a host that it needs",
        prior=0.01,
        predicts=_predicts(
            process={"alive": 0.6, "dead": 0.35, "starting": 0.03},
            port={"answers": 0.6, "refused": 0.35, "closed": 0.03},
            log={"name": 0.85, "errors": 0.06, "quiet": 0.04},
            words={"dependency": 0.4, "nothing": 0.4, "refused": 0.1},
        ),
    ),
    Cause(
        name="clock_off",
        sentence="its clock differs from that of the others",
        prior=0.01,
        predicts=_predicts(
            process=_RUNS, port=_ANSWERS, log={"clock": 0.7, "errors": 0.1, "quiet": 0.15}
        ),
    ),
    Cause(  # the network cannot be repaired from inside the system
        name="cut_off",
        sentence="it runs but cannot be reached at its address",
        prior=0.06,
        predicts=_predicts(
            process={"alive": 0.6, "isolated": 0.34, "starting": 0.03},
            port={"silent": 0.9, "refused": 0.07},
            sockets={"listening": 0.94, "waiting": 0.02, "deaf": 0.01},
            limits={"room": 0.94, "unknown": 0.05},
            log={"quiet": 0.4, "dependency": 0.3, "errors": 0.2, "unknown": 0.05},
        ),
    ),
    Cause(
        name="files_used_up",
        sentence="it has reached its limit of open files",
        prior=0.04,
        predicts=_predicts(
            process=_RUNS,
            port={"silent": 0.5, "closed": 0.25, "refused": 0.1, "answers": 0.13},
            sockets={"waiting": 0.75, "listening": 0.2},
            limits={"files": 0.95, "room": 0.02},
            log={"files": 0.5, "errors": 0.2, "quiet": 0.22},
            words={"files": 0.3, "silence": 0.3, "refused": 0.1, "nothing": 0.2},
        ),
        remedies=(_RESTART,),
    ),
    Cause(
        name="memory_used_up",
        sentence="it has reached its memory limit",
        prior=0.03,
        predicts=_predicts(
            process={"alive": 0.6, "dead": 0.35, "starting": 0.02},
            port={"silent": 0.3, "refused": 0.35, "closed": 0.1, "answers": 0.23},
            sockets={"waiting": 0.4, "deaf": 0.35, "listening": 0.2},
            limits={"memory": 0.65, "unknown": 0.32},
            log={"memory": 0.55, "errors": 0.2, "quiet": 0.15, "ended": 0.05},
            words={"memory": 0.4, "silence": 0.2, "refused": 0.2, "nothing": 0.1},
        ),
        remedies=(_RESTART,),
    ),
    Cause(  # only people know which files may be deleted
        name="disk_full",
        sentence="the disk of its data directory is full",
        prior=0.06,
        predicts=_predicts(
            process={"alive": 0.55, "dead": 0.4, "starting": 0.03},
            port={"answers": 0.45, "refused": 0.4, "closed": 0.07, "silent": 0.06},
            sockets={"listening": 0.45, "deaf": 0.4, "waiting": 0.1},
            disk={"full": 0.96, "unknown": 0.03},
            limits={"room": 0.55, "unknown": 0.43},
            log={"no_space": 0.5, "errors": 0.2, "quiet": 0.2, "ended": 0.05},
            words={"no_space": 0.6, "nothing": 0.15, "refused": 0.1, "silence": 0.05},
        ),
    ),
    Cause(
        name="credential_refused",
        sentence="its credentials are rejected, or it lacks a permission",
        prior=0.03,
        predicts=_predicts(
            process=_RUNS,
            port=_ANSWERS,
            log={"credential": 0.6, "errors": 0.2, "quiet": 0.12},
            words={"credential": 0.85, "nothing": 0.05},
        ),
    ),
    Cause(
        name="dependency_unreachable",
        sentence="it cannot reach one of its dependencies, which others can reach",
        prior=0.03,
        predicts=_predicts(
            process=_RUNS,
            port=_ANSWERS,
            log={"dependency": 0.6, "errors": 0.2, "quiet": 0.12},
            words={"dependency": 0.7, "nothing": 0.1, "silence": 0.08, "refused": 0.06},
        ),
    ),
    Cause(
        name="settings_differ",
        sentence="its configuration is wrong or differs from the others",
        prior=0.03,
        predicts=_predicts(
            process=_RUNS, port=_ANSWERS, log=_TALKS, words={"drift": 0.85, "nothing": 0.08}
        ),
    ),
    Cause(
        name="overloaded",
        sentence="it is overloaded",
        prior=0.03,
        predicts=_predicts(
            process=_RUNS,
            port={"answers": 0.5, "silent": 0.35, "closed": 0.08, "refused": 0.05},
            sockets={"waiting": 0.55, "listening": 0.42},
            log=_TALKS,
            words={"overload": 0.75, "slow": 0.12, "nothing": 0.05},
        ),
    ),
    Cause(
        name="way_slow",
        sentence="its network connection is slow",
        prior=0.02,
        predicts=_predicts(
            process=_RUNS,
            port=_ANSWERS,
            sockets={"listening": 0.9, "waiting": 0.08},
            log=_TALKS,
            words={"slow": 0.85, "silence": 0.05, "nothing": 0.05},
        ),
    ),
    Cause(  # the rest of a lost majority must not decide alone
        name="majority_gone",
        sentence="quorum lost: too few members are left",
        prior=0.02,
        predicts=_predicts(
            process={"alive": 0.5, "dead": 0.3, "stopped": 0.15},
            port={"answers": 0.5, "refused": 0.3, "silent": 0.15},
            log=_TALKS,
            words={"quorum": 0.95},
        ),
    ),
    Cause(
        name="wrong_answer",
        sentence="it runs but gives wrong answers",
        prior=0.4,
        predicts=_predicts(
            process=_RUNS,
            port=_ANSWERS,
            sockets={"listening": 0.9, "waiting": 0.07},
            limits={"room": 0.94, "unknown": 0.05},
            log=_TALKS,
            words={"nothing": 0.92, "silence": 0.02, "refused": 0.02},
        ),
    ),
    Cause(
        name="alert_unconfirmed",
        sentence="an external alert fires, but Operator's own checks find nothing wrong",
        prior=0.05,
        predicts=_predicts(
            process=_RUNS,
            port=_ANSWERS,
            sockets={"listening": 0.9, "waiting": 0.07},
            limits={"room": 0.94, "unknown": 0.05},
            log=_TALKS,
            words={"unconfirmed": 0.99},
        ),
    ),
    Cause(
        name="log_long",
        sentence="its log grows too fast",
        prior=0.03,
        predicts=_predicts(
            process=_RUNS, port=_ANSWERS, log=_TALKS, words={"log": 0.95, "nothing": 0.02}
        ),
    ),
)

UNEXPLAINED = Cause(
    name="unexplained",
    sentence="no known cause explains the evidence",
    prior=0.05,
    predicts={
        **{probe: _table(probe, {"unknown": 0.1}) for probe in HEALTHY if probe not in FREE},
        "process": _table("process", {"alive": 0.8, "dead": 0.05, "stopped": 0.05}),
        "port": _table("port", {"answers": 0.7, "silent": 0.1, "refused": 0.1}),
        "log": _table(
            "log",
            {
                "quiet": 0.35,
                "errors": 0.3,
                "ended": 0.1,
                "unknown": 0.08,
                **dict.fromkeys(DECISIVE, 0.01),
            },
        ),
        "sockets": _table("sockets", {"listening": 0.6, "waiting": 0.2}),
        "limits": _table("limits", {"room": 0.85, "unknown": 0.1}),
        "disk": _table("disk", {"room": 0.9, "unknown": 0.07}),
        CHANGES: _table(CHANGES, {"moved": 0.01}),
    },
)
