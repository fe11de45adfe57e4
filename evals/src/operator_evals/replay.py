"""A recorded incident as a world to work in: it answers what was asked then, and does nothing."""

from __future__ import annotations

import json
import shlex
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from operator_evals.kubectl import KUBECTL, normal_form
from operator_evals.recording import Incident, Look, Phase, RecordedAction, Recording
from operator_protocols.domain.action import SHELL, Action, Argument, Outcome, Result
from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import CheckResult, Finding, Observation
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.target import Target
from operator_protocols.domain.ticket import Ticket
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.domain.verdict import Level, Mode
from operator_protocols.ports import Clock, Job
from operator_sre.codec import to_json
from operator_sre.executor.tools.parameters import Invalid
from operator_sre.executor.tools.registry import Registry, known_from
from operator_sre.gate import Policy, Profile, judge
from operator_sre.monitor import OBSERVABLE
from operator_sre.verify import NO_CONCERN, Concern, Verifier

__all__ = ["NOTE", "RecordedProofs", "RecordedShell", "World", "canonical", "policy_for"]

COMMAND_CHARS_MAX = 200
_COMPOUND = frozenset("|;&<>`$\n")
# Added to the notes of the subject, so that an agent does not wait for the impossible.
NOTE = (
    "This is a recording of a past incident. Only questions from that time have answers, everything"
    " else is refused, and no action reaches a system. Name the cause and the target."
)


def canonical(action: Action) -> str:
    """The same text for the same action, regardless of the requester and the reason."""
    if action.tool == SHELL:
        command = action.command
        try:
            words: Sequence[str] = shlex.split(command)
        except ValueError:
            return " ".join(command.split())
        # In a pipe or a list of commands the words are not those of one call.
        if words[:1] == [KUBECTL] and not _COMPOUND & set(command):
            words = normal_form(words)
        return shlex.join(words)
    given = json.dumps(_drop_empty(action.arguments), sort_keys=True, ensure_ascii=False)
    return f"{action.tool} {given}"


def _drop_empty(arguments: Mapping[str, Argument]) -> dict[str, object]:
    """The arguments that say something: what is empty is the same as what is not there."""
    values: dict[str, object] = to_json(dict(arguments))
    empty: tuple[object, ...] = (None, "", [], {})  # 0 is a number, and False equals it
    return {
        name: value for name, value in values.items() if value is not False and value not in empty
    }


class World:
    """One incident as a subject: its looks, its answers, and the changes that were made then.

    A change that was made in a phase leads to the next one; any other is not known.
    """

    def __init__(self, recording: Recording, incident: Incident) -> None:
        self.name = recording.subject
        self.incident = incident
        self._at = 0
        self._shown = 0
        self._look = incident.phases[0].looks[0]
        self.tools = tuple(RecordedTool(spec, self) for spec in recording.tools)
        self._registry = Registry(self.tools)
        looks = [look for phase in incident.phases for look in phase.looks]
        names = {finding.invariant for look in looks for finding in look.sighting.findings}
        # A replayed check reports by itself whether it could observe.
        self.invariants = tuple(
            _RecordedInvariant(name, self) for name in sorted(names - {OBSERVABLE})
        )
        self.refused: list[str] = []

    @property
    def phase(self) -> Phase:
        """How the world is now."""
        return self.incident.phases[self._at]

    @property
    def check(self) -> CheckResult:
        """What the last check showed."""
        return self._look.sighting

    def targets(self) -> Sequence[Target]:
        """Its parts as they were."""
        return self._look.targets

    async def observe(self) -> Observation:
        """The next check of this phase, or its last one again; without any, the earlier phase's."""
        looks: Sequence[Look] = self.phase.looks or (self._look,)
        self._look = looks[min(self._shown, len(looks) - 1)]
        self._shown += 1
        return self._look.sighting.observation

    async def propose(self, action: Action, ticket: Ticket | None) -> Action | Result:
        """The recorded action, or a sentence where the recording has none."""
        known = known_from(ticket, self.targets(), target=action.target)
        proposed = await self._registry.propose(action, known)
        if isinstance(proposed, Invalid):
            return proposed.result
        found = self._find(proposed)
        if found is not None:
            return replace(found.action, reasoning=action.reasoning)
        if proposed.tool == SHELL and judge(proposed, policy_for(self)).level is Level.BLOCKED:
            return proposed  # the gate refuses it, and counts it as what it is
        self.refused.append(canonical(proposed))
        return Result(Outcome.REFUSED, stderr=self._unknown(proposed))

    def answer(self, action: Action) -> Result:
        """What came of it then; the world goes on to its next phase where it was changed."""
        found = self._find(action)
        if found is None:
            return Result(Outcome.REFUSED, stderr=self._unknown(action))
        if found is self.phase.change and self._at + 1 < len(self.incident.phases):
            self._at += 1
            self._shown = 0
        return found.result

    def _find(self, action: Action) -> RecordedAction | None:
        phase = self.phase
        recorded = [answer for answer in (*phase.answers, phase.change) if answer is not None]
        wanted = canonical(action)
        same = [each for each in recorded if canonical(each.action) == wanted]
        if not same and action.tool != SHELL:
            # The action with all these arguments, and as few others as possible.
            arguments = _drop_empty(action.arguments).items()
            nearest = [
                each
                for each in recorded
                if each.action.tool == action.tool
                and _drop_empty(each.action.arguments).items() >= arguments
            ]
            same = sorted(nearest, key=lambda each: len(_drop_empty(each.action.arguments)))[:1]
        # Where several got the same request, the last answer shows the state.
        about = [each for each in same if each.action.target == action.target] or same
        return about[-1] if about else None

    def _unknown(self, action: Action) -> str:
        command = canonical(action)[:COMMAND_CHARS_MAX]
        others = [phase for phase in self.incident.phases if phase is not self.phase]
        later = any(
            canonical(answer.action) == canonical(action)
            for phase in others
            for answer in (*phase.answers, phase.change)
            if answer is not None
        )
        when = "in this phase of the incident" if later else "during the incident"
        return (
            f"Refused: {command!r} was not run {when}, so the recording has no result for it."
            " Nothing was run. Use the evidence you have."
        )


@dataclass(frozen=True, slots=True)
class _RecordedInvariant:
    """Reports the recorded findings of a check."""

    name: str
    _world: World
    severity: Severity = Severity.WARNING
    grace_s: float = 0.0

    def check(self, observation: Observation) -> Iterable[Finding]:
        """What was found of this name in the look that was just shown."""
        return [finding for finding in self._world.check.findings if finding.invariant == self.name]


@dataclass(frozen=True, slots=True)
class RecordedTool:
    """A typed tool of which only the answers are left."""

    spec: ToolSpec
    _world: World

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """What it answered then."""
        return self._world.answer(Action(self.spec.name, arguments, str(arguments.get("target"))))


@dataclass(frozen=True, slots=True)
class RecordedShell:
    """Where commands do not run."""

    world: World

    async def run(self, action: Action, job: Job) -> Result:
        """What it wrote then."""
        return self.world.answer(action)

    async def recover(self, action: Action, job: Job) -> Result:
        """Nothing was started, so the result is unknown."""
        return Result(Outcome.UNKNOWN, stderr="Nothing runs in a recording.")


class RecordedProofs(Verifier):
    """Proves by what was proven in this phase of the record, and never waits."""

    def __init__(self, world: World, clock: Clock) -> None:
        super().__init__(clock=clock, stable_s=0.0, deadline_s=0.0, interval_s=0.0)
        self._world = world

    async def prove(
        self,
        ticket: Callable[[], Ticket],
        look: Callable[[], Awaitable[CheckResult]],
        *,
        before: frozenset[str],
        targets: Sequence[Target] = (),
        deadline_s: float | None = None,
        hasty: bool = False,
        changed: bool = False,
        concern: Concern = NO_CONCERN,
        target: str = "",
        ended: Callable[[], Collection[str]] = tuple,
    ) -> Proof:
        """The proof of this phase; where there is none, nothing is proven."""
        check = await look()
        recorded = self._world.phase.proof
        if recorded is not None:
            # Nothing was changed yet: what else broke is not for an agent that has just started.
            return replace(recorded, harm=()) if hasty else recorded
        health = check.own_health_of(violation.key for violation in ticket().violations)
        at = check.observation.at
        when = "and it was never proven to hold" if health is Health.HEALTHY else "at that moment"
        detail = f"The recording shows the ticket's invariants {health} {when}."
        return Proof(False, health, 1, at, at, 0.0, detail)


def policy_for(world: World) -> Policy:
    """Whatever is answered from a record runs by itself, but for what is never run anywhere."""
    phases = world.incident.phases
    names = {target.name for phase in phases for look in phase.looks for target in look.targets}
    recorded = [
        answer
        for phase in phases
        for answer in (*phase.answers, phase.change)
        if answer is not None
    ]
    names |= {each.action.target for each in recorded}
    return Policy(
        mode=Mode.EXECUTE,
        profile=Profile.LAB,
        tools=tuple(tool.spec for tool in world.tools),
        boundary_tools=frozenset({SHELL, *(tool.spec.name for tool in world.tools)}),
        boundary_targets=frozenset({"", world.name, *names}),
    )
