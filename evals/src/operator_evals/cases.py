"""Cases of Cloud-OpsBench as recordings: a folder for each, with cached answers and the cause."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from operator_evals.campaign import Scenario
from operator_evals.recording import (
    DEEDS_MAX,
    Expected,
    Incident,
    Look,
    Phase,
    RecordedAction,
    Recording,
)
from operator_protocols.domain.action import SHELL, Action, Outcome, Result
from operator_protocols.domain.cause import Cause
from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import CheckResult, Finding, Observation, Seen, Violation
from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import Parameter, ParameterType, ToolSource, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import NotFoundError, UsageError
from operator_protocols.ports import CorrectOutcome

__all__ = ["CASE", "Case", "cases_in", "causes_around", "recording_of"]

CASE = "metadata.json"
CACHE = "tool_cache.json"
# What kubectl printed, by the literal command; a case may be without it.
STATES = Path("raw_data", "k8s_states.json")
CASE_BYTES_MAX = 1_000_000
CACHE_BYTES_MAX = 20_000_000
FOLDERS_MAX = 50_000
CASES_MAX = 10_000
ANSWER_CHARS_MAX = 100_000
CHOICES_MAX = 60
# The folder that holds all cases, for a request of only a few of them.
BENCHMARK = "benchmark"
REPORTED = "reported"
SOURCE = "the case"
# Which kind of part an argument names; what a tool of nodes calls a service is a daemon there.
_PARTS = {"app_name": "app", "service_name": "app", "node_name": "node", "namespace": "namespace"}
_OF_NODES = "node_name"
_TOOL = re.compile(r"[A-Z][A-Za-z0-9_]{1,63}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


@dataclass(frozen=True, slots=True)
class Case:
    """One case: what was reported, the answers that were cached, and the truth.

    `printed` is what kubectl printed then, by the command.
    """

    name: str
    namespace: str
    query: str
    cause: str
    hit: str
    kind: str
    answers: tuple[tuple[str, Mapping[str, Any], str], ...]
    printed: Mapping[str, str] = field(default_factory=dict)


def cases_in(folder: Path, *, limit: int | None = None) -> Iterator[Case]:
    """Every case below a folder, in the order of their names; UsageError for an invalid case."""
    if not folder.is_dir():
        raise NotFoundError(f"There is no folder {str(folder)!r}.")
    places = sorted(
        _folders(folder),
        key=lambda path: [
            (int(part), "") if part.isdecimal() else (-1, part)  # case 2 comes before case 10
            for part in path.parts
        ],
    )
    if not places:
        raise UsageError(
            f"There is no case in {str(folder)!r}.",
            next_step=f"A case is a folder with {CASE} and {CACHE}.",
        )
    for place in places[: CASES_MAX if limit is None else limit]:
        document = _json(place / CASE, CASE_BYTES_MAX)
        result = document.get("result") if isinstance(document, dict) else None
        if not isinstance(result, dict):
            raise UsageError(f"The case {str(place)!r} has no result in its {CASE}.")
        kind, _, hit = str(result.get("fault_object", "")).rpartition("/")
        cause = str(result.get("root_cause", ""))
        namespace = str(document.get("namespace") or "cluster")
        for key, name in (("root_cause", cause), ("fault_object", hit), ("namespace", namespace)):
            if not _NAME.fullmatch(name):
                raise UsageError(f"The case {str(place)!r} has no {key} that is a name.")
        query = document.get("query")
        yield Case(
            name="/".join(place.relative_to(folder).parts) or place.name,
            namespace=namespace,
            query=query[:1000] if isinstance(query, str) and query else "Something is wrong.",
            cause=cause,
            hit=hit,
            kind=kind or "app",
            answers=tuple(_read_answers(place)),
            printed=_read_printed(place),
        )


def causes_around(folder: Path) -> tuple[str, ...]:
    """All causes that the cases name, of the whole benchmark where the folder is a part of one.

    An agent chooses among them, as the benchmark's own rules have it; where only one is named, no
    agent is shown it.
    """
    above = [path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir()]
    root = next((path for path in above if path.name == BENCHMARK), folder)
    causes: set[str] = set()
    for place in _folders(root):
        document = _json(place / CASE, CASE_BYTES_MAX)
        result = document.get("result") if isinstance(document, dict) else None
        cause = result.get("root_cause") if isinstance(result, dict) else None
        if isinstance(cause, str) and _NAME.fullmatch(cause):
            causes.add(cause)
    return tuple(sorted(causes)) if len(causes) > 1 else ()


def recording_of(case: Case, causes: Sequence[str]) -> Recording:
    """The case as a recording of one incident, in one phase that nothing ends."""
    kinds = {case.namespace: "namespace"}
    for _, arguments, _ in case.answers:
        for argument, kind in _PARTS.items():
            name = arguments.get(argument)
            daemon = argument == "service_name" and _OF_NODES in arguments
            if isinstance(name, str) and _NAME.fullmatch(name) and not daemon:
                kinds.setdefault(name, kind)
    kinds.setdefault(case.hit, case.kind)
    targets = tuple(Target(name, kinds[name]) for name in sorted(kinds))
    # The same moment for every case, so that it distinguishes none.
    at = datetime(2000, 1, 1, tzinfo=UTC)
    finding = Finding(REPORTED, case.namespace, Health.BROKEN, case.query)
    seen = tuple(Seen(target.name) for target in targets)
    check = CheckResult(Observation(case.namespace, at, seen), (finding,))
    broken = Violation(case.namespace, REPORTED, case.namespace, Severity.CRITICAL, case.query, at)
    answers = tuple(
        RecordedAction(Action(tool, arguments), Result(Outcome.RAN, 0, text))
        for tool, arguments, text in case.answers
    )
    answers += tuple(
        RecordedAction(Action.shell(command), Result(Outcome.RAN, 0, text))
        for command, text in case.printed.items()
    )
    end = CorrectOutcome.ESCALATED  # nothing of a case can be repaired
    scenario = Scenario(case.namespace, case.name, end, (REPORTED,), (f"{case.cause}@hit",))
    return Recording(
        subject=case.namespace,
        incidents=(Incident((broken,), (Phase((Look(check, targets),), answers),)),),
        expected=Expected(scenario, case.hit, SOURCE, case.name),
        tools=_describe_tools(case),
        causes=tuple(
            Cause(cause, f"{cause.replace('_', ' ')}", 1 / len(causes)) for cause in causes
        ),
    )


def _folders(root: Path) -> Iterator[Path]:
    """Folders of cases; links are not followed, and what is endless has an end."""
    for count, (folder, names, files) in enumerate(os.walk(root), start=1):
        if count > FOLDERS_MAX:
            raise UsageError(f"{str(root)!r} has more than {FOLDERS_MAX} folders.")
        if CASE in files and CACHE in files:
            names.clear()
            yield Path(folder)


def _read_answers(place: Path) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """The cached answers: `Tool:{"argument":"value"}` -> text or a document."""
    cache = _json(place / CACHE, CACHE_BYTES_MAX)
    if not isinstance(cache, dict) or len(cache) > DEEDS_MAX:
        raise UsageError(f"{CACHE} of the case {str(place)!r} is not a table of answers.")
    for key, value in cache.items():
        tool, _, rest = key.partition(":")
        if not _TOOL.fullmatch(tool):
            continue  # such as when it was collected
        try:
            arguments = json.loads(rest) if rest else {}
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict) or not all(
            isinstance(argument, str | int | float | bool | None) for argument in arguments.values()
        ):
            raise UsageError(
                f"{CACHE} of the case {str(place)!r} has an answer without a question."
            )
        text = value if isinstance(value, str) else json.dumps(value, indent=1)
        yield tool, arguments, text[:ANSWER_CHARS_MAX]


def _read_printed(place: Path) -> dict[str, str]:
    """What kubectl printed; nothing where the case has no such file."""
    if not (place / STATES).is_file():
        return {}
    states = _json(place / STATES, CACHE_BYTES_MAX)
    if not isinstance(states, dict) or len(states) > DEEDS_MAX:
        raise UsageError(f"{STATES} of the case {str(place)!r} is not a table of commands.")
    return {
        " ".join(command.split()): text[:ANSWER_CHARS_MAX]
        for command, text in states.items()
        if isinstance(text, str)
    }


def _json(path: Path, bytes_max: int) -> Any:
    try:
        if path.stat().st_size > bytes_max:
            raise UsageError(f"{str(path)!r} is too long.")
        return json.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{str(path)!r} is damaged: {type(error).__name__}.") from None


def _describe_tools(case: Case) -> tuple[ToolSpec, ...]:
    """The tools that were called, each parameter with the values that it was given."""
    calls: dict[str, dict[str, set[Any]]] = {}
    for tool, arguments, _ in case.answers:
        known = calls.setdefault(tool, {})
        for name, value in arguments.items():
            known.setdefault(name, set()).add(value)
    calls.pop(SHELL, None)
    tools = []
    for tool, known in sorted(calls.items()):
        parameters = []
        for name, values in known.items():
            kind, sentence = ParameterType.STRING, "a text"
            if all(isinstance(value, bool) for value in values):
                kind, sentence = ParameterType.BOOLEAN, "whether it is wanted"
            elif all(isinstance(value, int) and not isinstance(value, bool) for value in values):
                kind, sentence = ParameterType.INTEGER, "a number"
            elif texts := sorted({str(value) for value in values if value not in ("", None)}):
                sentence = f"such as {', '.join(texts[:CHOICES_MAX])}"[:2000]
            parameters.append(Parameter(name, sentence, kind, required=False))
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", tool).lower()
        spec = ToolSpec(
            name=tool,
            sentence=f"Answers from the collected data: {words}.",
            parameters=tuple(parameters),
            risk=Risk.LOW,
            changes=False,
            source=ToolSource.SUBJECT,
            idempotent=True,
        )
        tools.append(spec)
    return tuple(tools)
