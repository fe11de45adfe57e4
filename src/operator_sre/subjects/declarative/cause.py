"""Causes that a description declares: what shows each of them, and what ends it. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from operator_protocols.domain.cause import Cause
from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Observation, Seen
from operator_protocols.domain.target import Target
from operator_sre.subjects.declarative.document import Table, nearest
from operator_sre.subjects.declarative.expression import Reference
from operator_sre.subjects.declarative.invariants import DeclaredInvariant, read_expression
from operator_sre.subjects.declarative.patterns import pattern_of

__all__ = [
    "CAUSE_KEYS",
    "SHARED",
    "DeclaredCause",
    "causes_by",
    "implied_by",
    "is_cause",
    "read_causes",
    "read_names",
    "reading_of",
    "see_causes",
]

CAUSE_KEYS = ("says", "on", "prior", "shows", "words", "log", "remedies")
# Causes that an agent knows for every subject. A test compares them with the reasoner's.
SHARED = (
    *("alert_unconfirmed", "certificate_rejected", "clock_off", "configuration_rejected"),
    *("credential_refused", "cut_off", "data_missing", "data_unusable", "dependency_unreachable"),
    *("disk_full", "files_denied", "files_used_up", "limit_reached", "listens_elsewhere"),
    *("lock_file_left", "log_long", "majority_gone", "memory_used_up", "not_listening"),
    *("overloaded", "port_occupied", "process_dead", "process_hung", "process_paused"),
    *("process_starting", "removed_from_cluster", "settings_differ", "start_fails", "way_slow"),
    "wrong_answer",
    # causes.toml
    *("certificate_expired", "certificate_expiring", "certificate_name_differs"),
    *("certificate_untrusted", "connections_used_up", "content_differs", "dependency_down"),
    *("dependency_rejects", "dependency_slow", "host_unreachable", "login_rejected"),
    "schema_missing",
    *("name_not_resolved", "not_started", "queue_full", "server_errors", "slow_answers"),
    *("stopped_cleanly", "upstream_fails"),
)
# Before any evidence. A cause whose evidence is checked is doubted as soon as that is not there.
PRIOR, PRIOR_WITH_EVIDENCE, PRIOR_OF_INVARIANT = 0.2, 1.0, 1.0
_OWN = "cause"
_ERROR = re.compile(r"\.error$")


def reading_of(cause: str) -> str:
    """The reading that says whether an observation shows the evidence of a cause."""
    return f"{_OWN}.{cause}"


def is_cause(reading: str) -> bool:
    """Whether a reading says that an observation shows a cause."""
    return reading.startswith(f"{_OWN}.")


@dataclass(frozen=True, slots=True)
class DeclaredCause:
    """A cause with its evidence: values of probes, words of their errors, lines of the log.

    All of the evidence has to be there. `on` are kinds or names of targets.
    """

    name: str
    sentence: str
    on: frozenset[str] = frozenset()
    prior: float = PRIOR
    shows: DeclaredInvariant | None = None
    words: str = ""
    log: str = ""
    remedies: tuple[str, ...] = ()

    def find(self, seen: Seen, observation: Observation, log: str | None) -> bool | None:
        """Whether its evidence is there; None where nothing is asked for.

        Evidence that cannot be read proves nothing: other evidence has to be there then. `log` are
        the lines that the target wrote recently, None where they cannot be read.
        """
        found: list[bool | None] = []
        if self.shows is not None:
            health, _ = self.shows.judge(seen, observation)
            found.append(None if health is Health.UNKNOWN else health is Health.HEALTHY)
        if self.words:
            errors = [
                str(value) for name, value in seen.readings.items() if _ERROR.search(name) and value
            ]
            text = "\n".join((*errors, seen.problem))
            found.append(pattern_of(self.words).search(text) is not None)
        if self.log:
            found.append(None if log is None else pattern_of(self.log).search(log) is not None)
        return (True in found and False not in found) if found else None


def read_causes(
    root: Table,
    read_on: Callable[[Table], frozenset[str]],
    find_problem: Callable[[Reference, frozenset[str]], str],
) -> tuple[DeclaredCause, ...]:
    """All causes of a file, in its order."""
    causes = []
    for name, node in root.tables("causes", "a cause").items():
        table = Table(node, root.file, f"the cause {name!r}", CAUSE_KEYS)
        on = read_on(table)
        shows = None
        is_checked = any(key in table for key in ("shows", "words", "log"))
        if "shows" in table:

            def problem_of(reference: Reference, on: frozenset[str] = on) -> str:
                return find_problem(reference, on)

            expression = read_expression(table, "shows", problem_of)
            shows = DeclaredInvariant(name, Severity.INFO, 0.0, expression)
        cause = DeclaredCause(
            name=name,
            sentence=table.require_text("says").rstrip("."),
            on=on,
            prior=table.number(
                "prior", PRIOR_WITH_EVIDENCE if is_checked else PRIOR, low=0.001, high=1.0
            ),
            shows=shows,
            words=table.regex("words"),
            log=table.regex("log"),
            remedies=table.texts("remedies"),
        )
        causes.append(cause)
    return tuple(causes)


def read_names(table: Table, key: str, noun: str, valid: Iterable[str]) -> tuple[str, ...]:
    """A list of names; an unknown one is an error that says what was probably meant."""
    names, known = table.texts(key), list(valid)
    for name in names:
        if name not in known:
            raise table.wrong(
                f"{name[:60]!r} is not {noun}.", key, next_step=nearest(name, sorted(known))
            )
    return names


def implied_by(invariant: DeclaredInvariant) -> DeclaredCause:
    """What a lever ends that repairs an invariant: nothing is known but that it is broken."""
    return DeclaredCause(
        invariant.name,
        f"{invariant.name!r} is broken, and nothing points to a more specific cause",
        invariant.on,
        PRIOR_OF_INVARIANT,
    )


def causes_by(
    causes: Sequence[DeclaredCause],
    invariants: Sequence[DeclaredInvariant],
    targets: Sequence[Target],
) -> tuple[Cause, ...]:
    """The causes as an agent weighs them."""
    found = []
    names = {target.name: target.kind for target in targets}
    for cause in causes:
        breaks = tuple(
            invariant.name
            for invariant in invariants
            if cause.name in invariant.causes or cause.name == invariant.name
        )
        has_evidence = (
            cause.shows is not None or cause.words or cause.log or not cause.on.isdisjoint(names)
        )
        made = Cause(
            name=cause.name,
            sentence=cause.sentence,
            prior=cause.prior,
            kinds=tuple(sorted({names.get(word, word) for word in cause.on})),
            breaks=breaks,
            shows={reading_of(cause.name): True} if has_evidence else {},
        )
        found.append(made)
    return tuple(found)


def see_causes(
    causes: Sequence[DeclaredCause],
    target: Target,
    observation: Observation,
    log: str | None,
) -> Mapping[str, bool]:
    """Which causes the observation shows at a target, by the reading that says so."""
    seen = observation.of(target.name)
    found = {}
    for cause in causes:
        here = not cause.on or target.kind in cause.on or target.name in cause.on
        shown = cause.find(seen, observation, log) if here else False
        if shown is not None:
            found[reading_of(cause.name)] = shown
    return found
