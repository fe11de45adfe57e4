"""A recorded incident: observations and answers, phase by phase, and the truth held out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from operator_evals.campaign import Scenario
from operator_protocols.domain.action import SHELL, Action, Outcome, Result
from operator_protocols.domain.cause import Cause
from operator_protocols.domain.diagnosis import Diagnosis
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.observation import CheckResult, Observation, Violation
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.target import Process, Target
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.domain.verdict import Level
from operator_protocols.errors import NotFoundError, UsageError
from operator_sre.codec import from_json, to_json

__all__ = [
    "SCHEMA",
    "Expected",
    "Incident",
    "Look",
    "Phase",
    "RecordedAction",
    "Recording",
    "incidents_of",
    "proven_diagnosis",
    "read_recording",
    "restore_targets",
    "write_recording",
]

SCHEMA = "operator-recording/1"
FILE_BYTES_MAX = 20_000_000
INCIDENTS_MAX = 20
PHASES_MAX = 50
LOOKS_MAX = 50  # of one phase
DEEDS_MAX = 5_000  # of one phase
# Where a command about a target names its process.
_PID = re.compile(r"(?:\s-p\s*|/proc/|\bpid=)(\d{1,10})\b")
# Where the answer to a question about a target's port names it.
_PORT = re.compile(r"^\S+:(\d{1,5})\s")


@dataclass(frozen=True, slots=True)
class Look:
    """What an agent was shown: one check, and the targets of the subject at that time."""

    sighting: CheckResult
    targets: tuple[Target, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedAction:
    """A request or an action, without the reasoning of the agent, and its result."""

    action: Action
    result: Result


@dataclass(frozen=True, slots=True)
class Phase:
    """The world between two changes: looks, answers, the last proof, and the change that ends it.

    After the change of one phase the world is as the next phase tells.
    """

    looks: tuple[Look, ...] = ()
    answers: tuple[RecordedAction, ...] = ()
    proof: Proof | None = None
    change: RecordedAction | None = None


@dataclass(frozen=True, slots=True)
class Incident:
    """One ticket: what was broken when it was taken up, and what followed. `course` came before."""

    violations: tuple[Violation, ...]
    phases: tuple[Phase, ...]
    course: tuple[Observation, ...] = ()


@dataclass(frozen=True, slots=True)
class Expected:
    """The truth, which no agent is shown. `source` says who knows it, `origin` what it is of."""

    scenario: Scenario
    hit: str
    source: str
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Recording:
    """All that another agent needs to work on incidents of one subject, offline."""

    subject: str
    incidents: tuple[Incident, ...]
    expected: Expected
    tools: tuple[ToolSpec, ...] = ()
    causes: tuple[Cause, ...] = ()
    notes: str = ""
    schema: str = SCHEMA


@dataclass(slots=True)
class _PhaseDraft:
    """A phase that is being put together."""

    looks: list[Look] = field(default_factory=list)
    answers: list[RecordedAction] = field(default_factory=list)
    proof: Proof | None = None

    def finish(self, change: RecordedAction | None = None) -> Phase:
        """The phase, ended by a change or by the end of the record."""
        looks, answers = self.looks[-LOOKS_MAX:], self.answers[:DEEDS_MAX]
        return Phase(tuple(looks), tuple(answers), self.proof, change)


def incidents_of(entries: Sequence[Entry], *, ticket: int | None = None) -> tuple[Incident, ...]:
    """Every incident with a run, oldest first, from the ledger; or the incident of one ticket."""
    incidents = []
    for number in dict.fromkeys(entry.ticket for entry in entries if entry.ticket is not None):
        if ticket not in (None, number):
            continue
        own = [entry for entry in entries if entry.ticket == number]
        looks = [entry.seq for entry in own if entry.kind is Kind.OBSERVED]
        broken = [
            from_json(Violation, violation)
            for entry in own
            if entry.kind in (Kind.TICKET_OPENED, Kind.TICKET_GREW)
            and looks
            and entry.seq < looks[0]
            for violation in entry.payload["violations"]
        ]
        if broken:
            incidents.append(Incident(tuple(broken), tuple(_split_phases(own))[:PHASES_MAX]))
    return tuple(incidents[:INCIDENTS_MAX])


def _split_phases(entries: Sequence[Entry]) -> Iterator[Phase]:
    minted = {
        entry.payload["permit"]: entry.payload
        for entry in entries
        if entry.kind is Kind.PERMIT_MINTED
    }
    calls = {
        entry.payload["permit"]: entry.payload for entry in entries if entry.kind is Kind.TOOL_CALL
    }
    phase = _PhaseDraft()
    for entry in entries:
        payload = entry.payload
        match entry.kind:
            case Kind.OBSERVED:
                targets = tuple(from_json(Target, target) for target in payload.get("targets", ()))
                phase.looks.append(Look(from_json(CheckResult, payload), targets))
            case Kind.PROOF:
                phase.proof = from_json(Proof, payload)
            case Kind.TOOL_RESULT if payload["permit"] in calls:
                action = from_json(Action, calls[payload["permit"]]["action"])
                recorded = RecordedAction(
                    replace(action, reasoning="", expected=""), from_json(Result, payload["result"])
                )
                level = minted.get(payload["permit"], {}).get("level")
                if level == Level.SAFE:
                    phase.answers.append(recorded)
                else:
                    yield phase.finish(recorded)
                    phase = _PhaseDraft()
    yield phase.finish()


def proven_diagnosis(entries: Iterable[Entry]) -> Diagnosis | None:
    """The last diagnosis of a ticket that was resolved with a proof; None where there is none."""
    diagnosis: Diagnosis | None = None
    proven = False
    for entry in entries:
        if entry.kind is Kind.DIAGNOSIS:
            diagnosis = from_json(Diagnosis, entry.payload)
        proven = proven or entry.kind is Kind.TICKET_RESOLVED
    return diagnosis if proven else None


def restore_targets(incident: Incident, known: Sequence[Target]) -> Incident:
    """The incident with the parts that the subject had, where its looks do not tell them.

    `known` are its parts as they are now or as they are described; a target that was restarted
    since is another process now, so what commands of that time say of it counts.
    """
    phases = []
    for phase in incident.phases:
        actions = [answer for answer in (*phase.answers, phase.change) if answer is not None]
        targets = tuple(_recollect_target(target, actions) for target in known)
        looks = (look if look.targets else replace(look, targets=targets) for look in phase.looks)
        phases.append(replace(phase, looks=tuple(looks)))
    return replace(incident, phases=tuple(phases))


def _recollect_target(target: Target, actions: Iterable[RecordedAction]) -> Target:
    """The target as the commands about it name its process, its port, its log and its data."""
    for recorded in actions:
        action = recorded.action
        if action.target != target.name:
            continue
        words = action.command.split()
        if action.tool != SHELL:
            port = _PORT.match(recorded.result.stdout)
            target = replace(target, port=int(port[1])) if port else target
        elif pid := _PID.search(action.command):
            target = replace(target, process=Process(int(pid[1]), 0.0))
        elif words and words[0] == "tail":
            target = replace(target, log=words[-1])
        elif words and words[0] == "df":
            target = replace(target, data_dir=words[-1])
    return target


def write_recording(recording: Recording, path: Path) -> None:
    """Write it down as one file, never over another; UsageError where it would be too long."""
    text = json.dumps(to_json(recording), indent=1, ensure_ascii=True) + "\n"
    if len(text) > FILE_BYTES_MAX:
        raise UsageError(
            f"The recording would have {len(text)} bytes, at most {FILE_BYTES_MAX} are allowed.",
            next_step="Record one ticket instead of all: --ticket N",
        )
    try:
        with path.open("x", encoding="ascii") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(
            f"{str(path)!r} already exists.", next_step="Name another file with --output."
        ) from None
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be written: {error.strerror}.") from error


def read_recording(path: Path) -> Recording:
    """The recording in a file; UsageError in one sentence for whatever else is in it."""
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise UsageError(f"The recording {str(path)!r} is too long.")
        document = json.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        raise NotFoundError(f"There is no recording {str(path)!r}.") from None
    except OSError as error:
        raise UsageError(f"The recording {str(path)!r} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"The recording {str(path)!r} is damaged: {type(error).__name__}.",
            next_step="Record it again with: operator eval record",
        ) from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise UsageError(
            f"{str(path)!r} is not a recording that this version reads ({SCHEMA}).",
            next_step="Make one with: operator eval record",
        )
    try:
        recording = from_json(Recording, document)
    except (msgspec.ValidationError, ValueError, OverflowError, RecursionError) as error:
        why = " ".join(str(error).split())[:200]
        raise UsageError(f"The recording {str(path)!r} is invalid: {why}.") from None
    if why := _find_flaw(recording):
        raise UsageError(f"The recording {str(path)!r} is invalid: {why}.")
    return recording


def _find_flaw(recording: Recording) -> str:
    """Why no agent can work on it; empty when one can."""
    if not recording.incidents:
        return "there is no incident in it"
    if len(recording.incidents) > INCIDENTS_MAX:
        return f"it has more than {INCIDENTS_MAX} incidents"
    for incident in recording.incidents:
        if not incident.violations:
            return "nothing is broken in an incident"
        if not incident.phases or not incident.phases[0].looks:
            return "an incident starts without an observation"
        if {violation.subject for violation in incident.violations} != {recording.subject}:
            return "an incident is about another subject"
        if any(len(phase.answers) > DEEDS_MAX for phase in incident.phases):
            return f"a phase has more than {DEEDS_MAX} answers"
        if any(
            answer.result.outcome is Outcome.REFUSED
            for phase in incident.phases
            for answer in phase.answers
        ):
            return "an answer is not a result of a command"
    names = [tool.name for tool in recording.tools]
    if len(set(names)) < len(names) or SHELL in names:
        return "two tools have the same name"
    return ""
