"""A recorded incident: what was seen and answered, phase by phase, and the truth kept apart."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from operator_protocols.domain.action import SHELL, Action, Outcome, Result
from operator_protocols.domain.cause import Cause
from operator_protocols.domain.diagnosis import Diagnosis
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.observation import Observation, Sighting, Violation
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.target import Process, Target
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.domain.verdict import Level
from operator_protocols.errors import NotFoundError, UsageError
from operator_sre.codec import from_json, to_json
from operator_sre.evals.campaign import Scenario

__all__ = [
    "SCHEMA",
    "Deed",
    "Expected",
    "Incident",
    "Look",
    "Phase",
    "Recording",
    "incidents_of",
    "proven_diagnosis",
    "read_recording",
    "recollected",
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
    """What a mind was shown: one look, and the parts that the subject had then."""

    sighting: Sighting
    targets: tuple[Target, ...] = ()


@dataclass(frozen=True, slots=True)
class Deed:
    """What was asked or done, without the reasoning of whoever asked, and what came of it."""

    action: Action
    result: Result


@dataclass(frozen=True, slots=True)
class Phase:
    """The world between two changes: looks, answers, the last proof, and the change that ends it.

    After the change of one phase the world is as the next phase tells.
    """

    looks: tuple[Look, ...] = ()
    answers: tuple[Deed, ...] = ()
    proof: Proof | None = None
    change: Deed | None = None


@dataclass(frozen=True, slots=True)
class Incident:
    """One ticket: what was broken when it was taken up, and what followed. `course` came before."""

    violations: tuple[Violation, ...]
    phases: tuple[Phase, ...]
    course: tuple[Observation, ...] = ()


@dataclass(frozen=True, slots=True)
class Expected:
    """The truth, which no mind is shown. `source` says who knows it, `origin` what was recorded."""

    scenario: Scenario
    hit: str
    source: str
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Recording:
    """All that is needed to let another mind work on incidents of one subject, offline."""

    subject: str
    incidents: tuple[Incident, ...]
    expected: Expected
    tools: tuple[ToolSpec, ...] = ()
    causes: tuple[Cause, ...] = ()
    notes: str = ""
    schema: str = SCHEMA


@dataclass(slots=True)
class _Writing:
    """A phase that is being put together."""

    looks: list[Look] = field(default_factory=list)
    answers: list[Deed] = field(default_factory=list)
    proof: Proof | None = None

    def done(self, change: Deed | None = None) -> Phase:
        """The phase, ended by a change or by the end of the record."""
        looks, answers = self.looks[-LOOKS_MAX:], self.answers[:DEEDS_MAX]
        return Phase(tuple(looks), tuple(answers), self.proof, change)


def incidents_of(entries: Sequence[Entry], *, ticket: int | None = None) -> tuple[Incident, ...]:
    """Every incident that somebody worked on, oldest first, as the ledger tells; or that of one."""
    numbers = dict.fromkeys(one.ticket for one in entries if one.ticket is not None)
    wanted = [number for number in numbers if ticket in (None, number)]
    found = [_incident([one for one in entries if one.ticket == number]) for number in wanted]
    return tuple(one for one in found if one is not None)[:INCIDENTS_MAX]


def _incident(entries: Sequence[Entry]) -> Incident | None:
    looks = [one.seq for one in entries if one.kind is Kind.OBSERVED]
    filed = (Kind.TICKET_OPENED, Kind.TICKET_GREW)
    broken = [
        from_json(Violation, told)
        for one in entries
        if one.kind in filed and looks and one.seq < looks[0]
        for told in one.payload["violations"]
    ]
    if not broken:
        return None
    return Incident(tuple(broken), tuple(_phases(entries))[:PHASES_MAX])


def _phases(entries: Sequence[Entry]) -> Iterator[Phase]:
    minted = {
        one.payload["permit"]: one.payload for one in entries if one.kind is Kind.PERMIT_MINTED
    }
    calls = {one.payload["permit"]: one.payload for one in entries if one.kind is Kind.TOOL_CALL}
    phase = _Writing()
    for entry in entries:
        payload = entry.payload
        match entry.kind:
            case Kind.OBSERVED:
                phase.looks.append(_look(payload))
            case Kind.PROOF:
                phase.proof = from_json(Proof, payload)
            case Kind.TOOL_RESULT if payload["permit"] in calls:
                deed = _deed(calls[payload["permit"]]["action"], payload["result"])
                level = minted.get(payload["permit"], {}).get("level")
                if level == Level.SAFE:
                    phase.answers.append(deed)
                else:
                    yield phase.done(deed)
                    phase = _Writing()
    yield phase.done()


def _look(payload: Mapping[str, Any]) -> Look:
    targets = tuple(from_json(Target, one) for one in payload.get("targets", ()))
    return Look(from_json(Sighting, payload), targets)


def _deed(action: Mapping[str, Any], result: Mapping[str, Any]) -> Deed:
    asked = from_json(Action, action)
    return Deed(replace(asked, reasoning="", expected=""), from_json(Result, result))


def proven_diagnosis(entries: Iterable[Entry]) -> Diagnosis | None:
    """The last diagnosis of a ticket that was resolved with a proof; None where there is none."""
    told: Diagnosis | None = None
    proven = False
    for entry in entries:
        if entry.kind is Kind.DIAGNOSIS:
            told = from_json(Diagnosis, entry.payload)
        proven = proven or entry.kind is Kind.TICKET_RESOLVED
    return told if proven else None


def recollected(incident: Incident, known: Sequence[Target]) -> Incident:
    """The incident with the parts that the subject had, where its looks do not tell them.

    `known` are its parts as they are now or as they are described; a target that was started anew
    since is another process now, so what commands of that time say of it counts.
    """
    phases = [
        replace(
            phase,
            looks=tuple(
                look if look.targets else replace(look, targets=_then(phase, known))
                for look in phase.looks
            ),
        )
        for phase in incident.phases
    ]
    return replace(incident, phases=tuple(phases))


def _then(phase: Phase, known: Sequence[Target]) -> tuple[Target, ...]:
    deeds = [one for one in (*phase.answers, phase.change) if one is not None]
    return tuple(_as_named(target, deeds) for target in known)


def _as_named(target: Target, deeds: Iterable[Deed]) -> Target:
    """The target as the commands about it name its process, its port, its log and its data."""
    for deed in deeds:
        action = deed.action
        if action.target != target.name:
            continue
        words = action.command.split()
        if action.tool != SHELL:
            port = _PORT.match(deed.result.stdout)
            target = replace(target, port=int(port[1])) if port else target
        elif found := _PID.search(action.command):
            target = replace(target, process=Process(int(found[1]), 0.0))
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
            f"{str(path)!r} is there already.", next_step="Name another file with --output."
        ) from None
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be written: {error.strerror}.") from error


def read_recording(path: Path) -> Recording:
    """The recording in a file; UsageError in one sentence for whatever else is in it."""
    told = _loaded(path)
    schema = told.get("schema") if isinstance(told, dict) else None
    if schema != SCHEMA:
        raise UsageError(
            f"{str(path)!r} is no recording that this version reads ({SCHEMA}).",
            next_step="Make one with: operator eval record",
        )
    try:
        recording = from_json(Recording, told)
    except (msgspec.ValidationError, ValueError, OverflowError, RecursionError) as error:
        why = " ".join(str(error).split())[:200]
        raise UsageError(f"The recording {str(path)!r} makes no sense: {why}.") from None
    if why := _flaw(recording):
        raise UsageError(f"The recording {str(path)!r} makes no sense: {why}.")
    return recording


def _loaded(path: Path) -> Any:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise UsageError(f"The recording {str(path)!r} is too long.")
        return json.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        raise NotFoundError(f"There is no recording {str(path)!r}.") from None
    except OSError as error:
        raise UsageError(f"The recording {str(path)!r} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"The recording {str(path)!r} is not whole: {type(error).__name__}.",
            next_step="Make it anew with: operator eval record",
        ) from None


def _flaw(recording: Recording) -> str:
    """Why nobody can work on it; empty when somebody can."""
    if not recording.incidents:
        return "there is no incident in it"
    if len(recording.incidents) > INCIDENTS_MAX:
        return f"it has more than {INCIDENTS_MAX} incidents"
    for one in recording.incidents:
        if not one.violations:
            return "nothing is broken in an incident"
        if not one.phases or not one.phases[0].looks:
            return "an incident begins without a look"
        if {each.subject for each in one.violations} != {recording.subject}:
            return "an incident is about another subject"
        if any(len(each.answers) > DEEDS_MAX for each in one.phases):
            return f"a phase has more than {DEEDS_MAX} answers"
        if any(_unfit(each) for phase in one.phases for each in phase.answers):
            return "an answer is none that a command gives"
    names = [one.name for one in recording.tools]
    if len(set(names)) < len(names) or SHELL in names:
        return "two tools have the same name"
    return ""


def _unfit(deed: Deed) -> bool:
    """Whether nobody could have been told this: it was never begun."""
    return deed.result.outcome is Outcome.REFUSED
