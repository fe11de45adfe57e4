"""Recording an incident: from a ticket of a home, or from the ledger that a trial left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from operator_evals.app.campaigns import ledger_folder
from operator_evals.campaign import Scenario
from operator_evals.database import open_database
from operator_evals.facts import TrialFacts
from operator_evals.recording import (
    Expected,
    Incident,
    Recording,
    incidents_of,
    proven_diagnosis,
    restore_targets,
    write_recording,
)
from operator_lab.app.rigs import parts_of
from operator_lab.tools import RESTART_NODE, RESUME_NODE
from operator_protocols.domain.entry import Entry
from operator_protocols.domain.observation import Observation
from operator_protocols.errors import NotFoundError, OperatorError, UsageError
from operator_protocols.ports import CorrectOutcome
from operator_sre.app.redaction import open_redactor
from operator_sre.app.wiring.controls import build_registry, notes_of
from operator_sre.chain import entry_from
from operator_sre.codec import from_json, to_json

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["Kept", "entries_in", "record_from", "record_ticket", "record_trial"]

ENTRIES_MAX = 100_000
LOOKS_MAX = 10_000
COURSE_MAX = 200
COURSE_S = 1800.0
# How the truth about what was recorded is known.
BY_FAULT = "the injected fault"
BY_PROOF = "the proven diagnosis"
BY_PERSON = "a person"


@dataclass(frozen=True, slots=True)
class Kept:
    """What was written down: how much of it there is, and where the truth about it comes from."""

    file: str
    subject: str
    incidents: int
    looks: int
    answers: int
    changes: int
    source: str


def record_ticket(
    app: App, ticket: int, output: Path, *, cause: str = "", target: str = ""
) -> Kept:
    """Record one ticket of this home; a person may say what its cause was, and where."""
    entries = app.store.entries.after(0, limit=ENTRIES_MAX, ticket=ticket)
    found = app.store.tickets.get(ticket)
    if found is None:
        raise NotFoundError(
            f"There is no ticket {ticket}.", next_step="See them with: operator tickets list"
        )
    incidents = _require_work(incidents_of(entries, ticket=ticket), f"ticket {ticket}")
    until = incidents[0].phases[0].looks[0].sighting.observation.at
    since = until - timedelta(seconds=COURSE_S)
    looks = app.store.observations.after(found.subject, since, limit=LOOKS_MAX)
    before = [look for look in looks if look.at <= until]
    every = max(1, -(-len(before) // COURSE_MAX))
    redactor = open_redactor(app.config)  # looks are kept as they came, the ledger is not
    course = tuple(
        from_json(Observation, redactor.value(to_json(look))) for look in before[::every]
    )
    incidents = tuple(replace(incident, course=course) for incident in incidents)
    diagnosis = proven_diagnosis(entries)
    if not cause and diagnosis is None:
        raise UsageError(
            f"Ticket {ticket} was never resolved with a proof, so its cause is unknown.",
            next_step="Pass it with --cause NAME --target NAME.",
        )
    hit = target or (diagnosis.target if diagnosis else found.target)
    named = cause or (diagnosis.cause if diagnosis else "")
    invariants = tuple(dict.fromkeys(violation.invariant for violation in found.violations))
    scenario = Scenario(
        found.subject, "recorded", CorrectOutcome.MITIGATED, invariants, (f"{named}@hit",)
    )
    source = BY_PERSON if cause else BY_PROOF
    expected = Expected(scenario, hit, source, f"ticket {ticket}")
    return _save_recording(app, found.subject, incidents, expected, output)


def record_trial(
    app: App, facts: TrialFacts, entries: Sequence[Entry], output: Path, *, ticket: int | None
) -> Kept:
    """Record a trial from its exported ledger: all of its tickets, or one of them."""
    incidents = _require_work(incidents_of(entries, ticket=ticket), f"trial {facts.key!r}")
    origin = f"{facts.campaign} {facts.key}"
    expected = Expected(facts.scenario, facts.hit, BY_FAULT, origin)
    return _save_recording(app, facts.scenario.subject, incidents, expected, output)


def entries_in(bundle: Path) -> list[Entry]:
    """The entries of an exported ledger that are whole, oldest first."""
    from operator_sre.ledger.bundle import Bundle

    rows = Bundle(bundle).raw(0, limit=ENTRIES_MAX)
    return [
        entry_from(seq, body, before, linked)
        for seq, body, _, before, linked in rows
        if body is not None
    ]


def _require_work(incidents: tuple[Incident, ...], name: str) -> tuple[Incident, ...]:
    if not incidents:
        raise UsageError(
            f"No agent has worked on {name}, so there is nothing to record.",
            next_step="Let an agent work on it first.",
        )
    return incidents


def _save_recording(
    app: App,
    subject: str,
    incidents: tuple[Incident, ...],
    expected: Expected,
    output: Path,
) -> Kept:
    plugin = app.plugin_of(subject)
    try:
        targets = tuple(app.targets_of(subject))
    except OperatorError:
        if not (plugin.rig or plugin.stack):
            raise
        targets = parts_of(plugin)  # the rig is gone: its parts are as its description tells
    settings = app.settings_of(subject, lambda: targets)
    part_of = plugin.subject(settings)
    # A subject may know parts that are no process, such as the cluster that its members are.
    incidents = tuple(restore_targets(incident, part_of.targets()) for incident in incidents)
    brought = plugin.tools(settings) if plugin.tools is not None else ()
    configured = app.is_alerted(subject) or any(
        known.name == subject for known in app.config.subjects
    )
    rig = not configured
    specs = build_registry(app, app.programs, lambda: targets, brought, rig=rig).specs
    recording = Recording(
        subject=subject,
        incidents=incidents,
        expected=expected,
        tools=(*specs, RESTART_NODE, RESUME_NODE) if rig else tuple(specs),
        causes=plugin.causes,
        notes=notes_of(plugin, part_of),
    )
    write_recording(recording, output)
    phases = [phase for incident in incidents for phase in incident.phases]
    return Kept(
        file=str(output),
        subject=subject,
        incidents=len(incidents),
        looks=sum(len(phase.looks) for phase in phases),
        answers=sum(len(phase.answers) for phase in phases),
        changes=sum(phase.change is not None for phase in phases),
        source=expected.source,
    )


def record_from(
    app: App, database: Path, campaign: str, key: str, output: Path, *, ticket: int | None = None
) -> Kept:
    """Record a trial of a campaign by its key, from the ledger that lies beside the database."""
    if not database.exists():
        raise NotFoundError("There is no campaign yet.", next_step="See: operator eval run --help")
    with open_database(database) as known:
        facts = known.trial(known.campaign(campaign).campaign.name, key)
    if not facts.ledger:
        raise UsageError(f"The trial {key!r} left no ledger, so there is nothing to record.")
    entries = entries_in(ledger_folder(database, campaign) / Path(facts.ledger).name)
    return record_trial(app, facts, entries, output, ticket=ticket)
