"""What restrains an agent even where the policy would let it act: limits, turns and its session.

The session is how much risk an agent has piled up, by what the ledger remembers. At HIGH nothing
that is not SAFE runs by itself any more; at CRITICAL the agent is in observe until a person resets
it. What is SAFE still runs: an agent needs checks to find out what is wrong, so they weigh little
and, however many there are, never lead beyond MEDIUM.
"""

from __future__ import annotations

import itertools
import math
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from operator_protocols.domain.action import SHELL, Action
from operator_protocols.domain.limits import BUSY, Limits
from operator_protocols.domain.session import SessionAction, session_of
from operator_protocols.domain.verdict import Level, Risk, Verdict

if TYPE_CHECKING:
    from operator_protocols.domain.action import Result
    from operator_protocols.ports import Clock, LimitUsage, Sessions, Switch

__all__ = [
    "RIG_CHANGES_PER_HOUR",
    "SCORES",
    "WINDOW_S",
    "Held",
    "Restraint",
    "Session",
    "Turns",
    "came_late",
    "classify",
    "limits_for",
    "refused_as_busy",
    "weigh",
]

# A rig is there to be broken and repaired all day, as a whole.
RIG_CHANGES_PER_HOUR = 3600
# How long a change waits for another of the same subject, and how often it looks.
BUSY_S_MAX, POLL_S = 600.0, 0.2
# How long to wait for another change before the agent gets the answer to try again.
TURN_S_MAX = 30.0
# How long to wait until repairs of other targets are proven, so that one more may be touched.
PROOFS_S_MAX, PROOF_POLL_S = 90.0, 1.0
Classify = Callable[[Action], str]
WINDOW_S = 300.0
HASTE_S = 30.0
HASTY_MIN = 2
LOOKS_MAX = 9
UNKNOWN = 3
# What a command tries although its verdict says otherwise is a miss of the gate, or an attack.
BLOCKED = 10
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
    *((tool, "restart", "docker_restart") for tool in ("docker", "podman", "systemctl", "service")),
    *((tool, "exec", "docker_exec") for tool in ("docker", "podman", "kubectl")),
    ("kubectl", "rollout", "docker_restart"),
    ("kubectl", "delete", "delete_file"),
    ("docker", "rm", "delete_file"),
    ("sed", "-i", "write_file"),
    *((tool, "del", "reset_counter") for tool in ("redis-cli", "valkey-cli")),
)
COMMAND_CHARS_MAX = 4096
_PLAIN = re.compile(r"[\w./:=,+@% -]*")
_APART = re.compile(r"[^\w./:=,+@%-]+")
_WRAPPERS = frozenset({"env", "ionice", "nice", "nohup", "setsid", "sudo", "timeout", "xargs"})


def limits_for(
    targets: int, *, changes_per_hour: int, targets_max: int = 0, rig: bool = False
) -> Limits:
    """The limits of a subject with so many targets; by default a third of them may be touched."""
    if rig:
        return Limits(changes_per_hour=RIG_CHANGES_PER_HOUR, targets_max=max(1, targets))
    return Limits(
        changes_per_hour=changes_per_hour, targets_max=targets_max or max(1, targets // 3)
    )


@dataclass(frozen=True, slots=True)
class Turns:
    """The turn of one subject, as all processes on one store see it."""

    subject: str
    changes: LimitUsage
    limits: Callable[[], Limits]
    clock: Clock

    async def free(self) -> bool:
        """Wait while another change runs, for a limited time; False at once if none does."""
        deadline = self.clock.monotonic() + BUSY_S_MAX
        waited = False
        while self.clock.monotonic() < deadline:
            limits = self.limits()
            usage = self.changes.usage(self.subject, limits, now=self.clock.now())
            if not limits.busy(usage):
                break
            waited = True
            await self.clock.sleep(POLL_S)
        return waited


def refused_as_busy(verdict: Verdict, why: str) -> Result:
    """The refusal of a change only because another change is running."""
    return replace(verdict.refusal(why), data={BUSY: True})


def came_late(refused: Result) -> bool:
    """Whether a change was refused only because another one was quicker.

    The texts do not tell: they hold words of commands and of people.
    """
    return refused.data.get(BUSY) is True


@dataclass(frozen=True, slots=True)
class Session:
    """The risk of all actions of an agent, and why."""

    score: int = 0
    level: Risk = Risk.LOW
    reasons: tuple[str, ...] = field(default=())


def weigh(deeds: Sequence[SessionAction], classify: Classify) -> Session:
    """The risk of these actions of one agent, oldest first and within the window."""
    changes = [deed for deed in deeds if deed.level != Level.SAFE]
    names = [
        classify(Action.shell(deed.command) if deed.tool == SHELL else Action(deed.tool, {}))
        for deed in changes
    ]
    looks = min(len(deeds) - len(changes), LOOKS_MAX)
    base = looks + sum(SCORES.get(name, UNKNOWN) for name in names)
    reasons = [f"{len(changes)} changes and {len(deeds) - len(changes)} looks: {base}"]
    score = base
    # Programs look fast, so only the time between changes tells anything.
    haste = timedelta(seconds=HASTE_S)
    gaps = [later.at - deed.at for deed, later in itertools.pairwise(changes)]
    if sum(gap < haste for gap in gaps) >= HASTY_MIN:
        score = math.ceil(base * 1.5)
        reasons.append(f"one change after another within {HASTE_S:g} s: +{score - base}")
    more: list[tuple[int, str]] = []
    if "docker_restart" in names and "docker_exec" in names[names.index("docker_restart") :]:
        more.append((20, "a restart, then a command inside"))
    if names.count("remove_peer") >= 2:
        more.append((15, "more than one peer removed"))
    if names.count("delete_file") >= 2:
        more.append((15, "more than one deletion"))
    if blocked := sum(deed.blocked for deed in deeds):
        more.append((BLOCKED * blocked, f"{blocked} commands tried what the kernel refused"))
    secrets = [place for place, deed in enumerate(deeds) if deed.secret]
    if secrets and any(deed.network for deed in deeds[secrets[0] :]):
        more.append((20, "a secret was read, then the network reached"))
    for points, why in more:
        score += points
        reasons.append(f"{why}: +{points}")
    level = next(level for least, level in _LEVELS if score >= least)
    return Session(score, level, tuple(reasons))


def deed_of(verdict: Verdict, at: datetime) -> SessionAction:
    """What an action would weigh if it began now."""
    action = verdict.action
    return SessionAction(
        at,
        action.tool,
        action.command,
        verdict.level,
        secret=bool(verdict.sensitive),
        network=bool(verdict.network),
    )


def classify(action: Action) -> str:
    """The name by which an action is scored; "" when it is not scored."""
    if action.tool != SHELL:
        return action.tool if action.tool in SCORES else ""
    command = action.command[:COMMAND_CHARS_MAX]
    words = [word for word in _APART.split(command) if word]
    # In a line that is more than one plain command any word may be one; the worst of them counts.
    plain = words and _PLAIN.fullmatch(command) and posixpath.basename(words[0]) not in _WRAPPERS
    lower, names = [word.lower() for word in words], [""]
    for place, word in enumerate(words[:1] if plain else words):
        program = posixpath.basename(word)
        verbs = (
            name
            for tool, verb, name in _VERBS
            if program == tool and verb in itertools.islice(lower, place + 1, None)
        )
        names.append(next(verbs, _FIRST_WORDS.get(program, "")))
    return max(names, key=lambda name: SCORES.get(name, 0))


@dataclass(frozen=True, slots=True)
class Held:
    """Why something does not run by itself: refused at once, or a person must be asked.

    `session` is that of an agent which must be held from here on. `busy` when it is refused for
    nothing but another change that runs, `crowded` when only unproven repairs of other targets are
    in its way.
    """

    refuse: str = ""
    ask: str = ""
    session: Session | None = None
    busy: bool = False
    crowded: bool = False


def touched_by(verdict: Verdict) -> str:
    """The target that an action changes."""
    return str(verdict.action.arguments.get("target") or verdict.action.target)


@dataclass(frozen=True, slots=True)
class Restraint:
    """The kill switch, the limits of a subject, and the session of an agent, in this order.

    `inside` tells what cannot reach beyond a disposable rig, and so weighs nothing.
    """

    switch: Switch
    changes: LimitUsage
    sessions: Sessions
    clock: Clock
    limits: Callable[[], Limits]
    inside: Callable[[Action], bool] = lambda action: False
    classify: Classify = classify

    async def __call__(self, verdict: Verdict, subject: str, agent: str) -> Held | None:
        """Why this must not run by itself now; None when nothing holds it back.

        May wait a while for its turn. The limits are checked again when it begins.
        """
        if verdict.level is Level.REVIEW and not self.switch.state().on:
            limits, ends = self.limits(), self.clock.monotonic() + TURN_S_MAX
            while limits.busy(self.changes.usage(subject, limits, now=self.clock.now())):
                if self.clock.monotonic() >= ends:
                    break
                await self.clock.sleep(POLL_S)
        held = self.foresee(verdict, subject, agent)
        if held is not None and held.session is not None:
            score, reason = held.session.score, "; ".join(held.session.reasons)
            await self.sessions.hold(session_of(agent), score=score, reason=reason)
        return held

    async def await_proofs(self, verdict: Verdict, subject: str) -> bool:
        """Wait while repairs of other targets are being proven; True when that made room.

        The agent then thinks again, because the state is another one.
        """
        target = touched_by(verdict)
        limits, ends = self.limits(), self.clock.monotonic() + PROOFS_S_MAX
        waited = False
        while limits.question(self.changes.usage(subject, limits, now=self.clock.now()), target):
            if self.clock.monotonic() >= ends or self.switch.state().on:
                return False
            waited = True
            await self.clock.sleep(PROOF_POLL_S)
        return waited

    def is_crowded(self, verdict: Verdict, subject: str) -> bool:
        """Whether it would touch one target too many while earlier repairs are not proven."""
        limits = self.limits()
        usage = self.changes.usage(subject, limits, now=self.clock.now())
        return bool(limits.question(usage, touched_by(verdict)))

    def foresee(self, verdict: Verdict, subject: str, agent: str) -> Held | None:
        """The same as it is at this moment: nothing is written and nothing waited for."""
        if self.switch.state().on:
            return Held(refuse="The kill switch is on (operator kill-switch status).")
        if verdict.level is not Level.REVIEW:
            return None
        limits, now = self.limits(), self.clock.now()
        usage = self.changes.usage(subject, limits, now=now)
        if why := limits.refusal_in_turn(usage, now):
            return Held(refuse=f"Held back: {why}.")
        held = None if self.inside(verdict.action) else self._session(verdict, agent)
        # A busy subject is the last reason to refuse, because it passes.
        if not (held and held.refuse) and (why := limits.busy(usage)):
            return Held(refuse=f"Held back: {why}.", busy=True)
        if held is not None:
            return held
        why = limits.question(usage, touched_by(verdict))
        return Held(ask=f"Held back: {why}.", crowded=True) if why else None

    def _session(self, verdict: Verdict, agent: str) -> Held | None:
        name = session_of(agent)
        reset = f"operator session reset {name} --reason WHY"
        if any(record.held for record in self.sessions.find(name)):
            return Held(refuse=f"{name!r} is in observe until a person resets it ({reset}).")
        session = self.session(name, verdict)
        state = f"The session of {name!r} is {session.level} ({session.score})"
        if session.level is Risk.CRITICAL:
            why = f"{state}: it is in observe until a person resets it ({reset})."
            return Held(refuse=why, session=session)
        if session.level is not Risk.HIGH:
            return None
        locks = next(least for least, level in _LEVELS if level is Risk.CRITICAL)
        warning = f"At {locks} it is put into observe until a person resets it ({reset})."
        return Held(ask=f"{state}. {warning}")

    def session(self, agent: str, verdict: Verdict) -> Session:
        """The risk of an agent's actions, including the one it proposes now."""
        now = self.clock.now()
        deeds = self.sessions.actions(agent, since=now - timedelta(seconds=WINDOW_S))
        return weigh([*deeds, deed_of(verdict, now)], self.classify)
