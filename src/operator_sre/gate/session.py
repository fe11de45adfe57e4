"""How much risk an agent has piled up lately. Pure: it goes by what the ledger remembers.

At HIGH nothing that is not SAFE runs by itself any more; at CRITICAL the agent is in observe until
a person resets it. What is SAFE still runs: looking is what an agent needs to find out what is
wrong, so looks weigh little and, however many there are, never lead beyond MEDIUM.
"""

from __future__ import annotations

import itertools
import math
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from operator_protocols.domain.action import SHELL, Action
from operator_protocols.domain.session import Deed
from operator_protocols.domain.verdict import Level, Risk, Verdict

__all__ = ["SCORES", "WINDOW_S", "Classify", "Session", "classify", "deed_of", "weigh"]

Classify = Callable[[Action], str]
WINDOW_S = 300.0
HASTE_S = 30.0
HASTY_MIN = 2
LOOKS_MAX = 9
UNKNOWN = 3
SCORES: Mapping[str, int] = {
    "transfer_leader": 3,
    "add_peer": 4,
    "update_config": 4,
    "remove_peer": 5,
    "docker_restart": 6,
    "write_file": 7,
    "docker_exec": 8,
    "delete_file": 9,
    "reset_counter": 10,
}
_LEVELS = ((50, Risk.CRITICAL), (25, Risk.HIGH), (10, Risk.MEDIUM), (0, Risk.LOW))
_FIRST_WORDS: Mapping[str, str] = {
    **dict.fromkeys(("rm", "rmdir", "shred", "truncate", "unlink"), "delete_file"),
    **dict.fromkeys(("cp", "dd", "install", "ln", "mkdir", "mv", "tee", "touch"), "write_file"),
    **dict.fromkeys(("kill", "pkill", "killall"), "docker_restart"),
}
# A program, one of its words, and what that does.
_VERBS: tuple[tuple[str, str, str], ...] = (
    *((one, "restart", "docker_restart") for one in ("docker", "podman", "systemctl", "service")),
    *((one, "exec", "docker_exec") for one in ("docker", "podman", "kubectl")),
    ("kubectl", "rollout", "docker_restart"),
    ("kubectl", "delete", "delete_file"),
    ("docker", "rm", "delete_file"),
    ("sed", "-i", "write_file"),
    *((one, "del", "reset_counter") for one in ("redis-cli", "valkey-cli")),
)
COMMAND_CHARS_MAX = 4096
_PLAIN = re.compile(r"[\w./:=,+@% -]*")
_APART = re.compile(r"[^\w./:=,+@%-]+")
_WRAPPERS = frozenset({"env", "ionice", "nice", "nohup", "setsid", "sudo", "timeout", "xargs"})


@dataclass(frozen=True, slots=True)
class Session:
    """What an agent's deeds add up to, and why."""

    score: int = 0
    level: Risk = Risk.LOW
    reasons: tuple[str, ...] = field(default=())


def weigh(deeds: Sequence[Deed], classify: Classify) -> Session:
    """What these deeds of one agent, oldest first and within the window, add up to."""
    changes = [deed for deed in deeds if deed.level != Level.SAFE]
    names = [classify(_action_of(deed)) for deed in changes]
    looks = min(len(deeds) - len(changes), LOOKS_MAX)
    base = looks + sum(SCORES.get(name, UNKNOWN) for name in names)
    reasons = [f"{len(changes)} changes and {len(deeds) - len(changes)} looks: {base}"]
    score = base
    if _hasty(changes):
        score = math.ceil(base * 1.5)
        reasons.append(f"one change after another within {HASTE_S:g} s: +{score - base}")
    for points, why in _sequences(deeds, names):
        score += points
        reasons.append(f"{why}: +{points}")
    level = next(level for least, level in _LEVELS if score >= least)
    return Session(score, level, tuple(reasons))


def deed_of(verdict: Verdict, at: datetime) -> Deed:
    """What an action would weigh if it began now."""
    action = verdict.action
    return Deed(
        at,
        action.tool,
        action.command,
        verdict.level,
        secret=bool(verdict.sensitive),
        network=bool(verdict.network),
    )


def classify(action: Action) -> str:
    """Which of the scored deeds an action is; "" when it is none of them."""
    if action.tool != SHELL:
        return action.tool if action.tool in SCORES else ""
    command = action.command[:COMMAND_CHARS_MAX]
    words = [word for word in _APART.split(command) if word]
    # In a line that is more than one plain command any word may be one; the worst of them counts.
    plain = words and _PLAIN.fullmatch(command) and posixpath.basename(words[0]) not in _WRAPPERS
    places = words[:1] if plain else words
    names = [_name_at(words, place) for place in range(len(places))]
    return max(names, key=lambda name: SCORES.get(name, 0), default="")


def _name_at(words: Sequence[str], place: int) -> str:
    program, rest = posixpath.basename(words[place]), words[place + 1 :]
    for one, verb, name in _VERBS:
        if program == one and verb in (word.lower() for word in rest):
            return name
    return _FIRST_WORDS.get(program, "")


def _action_of(deed: Deed) -> Action:
    return Action.shell(deed.command) if deed.tool == SHELL else Action(deed.tool, {})


def _hasty(changes: Sequence[Deed]) -> bool:
    """Programs look fast, so only the time between changes tells anything."""
    haste = timedelta(seconds=HASTE_S)
    gaps = [later.at - deed.at for deed, later in itertools.pairwise(changes)]
    return sum(gap < haste for gap in gaps) >= HASTY_MIN


def _sequences(deeds: Sequence[Deed], names: Sequence[str]) -> list[tuple[int, str]]:
    found = []
    if "docker_restart" in names and "docker_exec" in names[names.index("docker_restart") :]:
        found.append((20, "a restart, then a command inside"))
    if names.count("remove_peer") >= 2:
        found.append((15, "more than one peer removed"))
    if names.count("delete_file") >= 2:
        found.append((15, "more than one deletion"))
    secrets = [place for place, deed in enumerate(deeds) if deed.secret]
    if secrets and any(deed.network for deed in deeds[secrets[0] :]):
        found.append((20, "a secret was read, then the network reached"))
    return found
