"""Recording an incident: from a ticket of a home, or from the ledger that a trial left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from operator_protocols.domain.entry import Entry
from operator_protocols.domain.observation import Observation
from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.errors import NotFoundError, OperatorError, UsageError
from operator_protocols.ports import Plugin, RightEnd
from operator_sre.app.evals.campaigns import ledger_folder
from operator_sre.app.redaction import open_redactor
from operator_sre.app.rig_makes import parts_of
from operator_sre.app.toolbox import registry_of
from operator_sre.app.wiring import notes_of
from operator_sre.chain import entry_from
from operator_sre.codec import from_json, to_json
from operator_sre.evals.campaign import Scenario
from operator_sre.evals.database import open_database
from operator_sre.evals.facts import TrialFacts
from operator_sre.evals.recording import (
    Expected,
    Incident,
    Recording,
    incidents_of,
    proven_diagnosis,
    recollected,
    write_recording,
)

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["Kept", "entries_in", "record_from", "record_ticket", "record_trial"]

ENTRIES_MAX = 100_000
LOOKS_MAX = 10_000
COURSE_MAX = 200
COURSE_S = 1800.0
# How the truth about what was recorded is known.
BY_FAULT = "the fault that was done"
BY_PROOF = "the diagnosis that was proven"
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
    incidents = _worked_on(incidents_of(entries, ticket=ticket), f"ticket {ticket}")
    course = _course(app, found.subject, incidents[0])
    incidents = tuple(replace(one, course=course) for one in incidents)
    told = proven_diagnosis(entries)
    if not cause and told is None:
        raise UsageError(
            f"Ticket {ticket} was never proven to be over, so that nobody knows its cause.",
            next_step="Say it: --cause NAME --target NAME",
        )
    hit = target or (told.target if told else found.target)
    named = cause or (told.cause if told else "")
    invariants = tuple(dict.fromkeys(one.invariant for one in found.violations))
    scenario = Scenario(
        found.subject, "recorded", RightEnd.MITIGATED, invariants, (f"{named}@hit",)
    )
    source = BY_PERSON if cause else BY_PROOF
    expected = Expected(scenario, hit, source, f"ticket {ticket}")
    return _kept(app, found.subject, incidents, expected, output)


def record_trial(
    app: App, facts: TrialFacts, entries: Sequence[Entry], output: Path, *, ticket: int | None
) -> Kept:
    """Record a trial from its exported ledger: all of its tickets, or one of them."""
    incidents = _worked_on(incidents_of(entries, ticket=ticket), f"trial {facts.key!r}")
    origin = f"{facts.campaign} {facts.key}"
    expected = Expected(facts.scenario, facts.hit, BY_FAULT, origin)
    return _kept(app, facts.scenario.subject, incidents, expected, output)


def entries_in(bundle: Path) -> list[Entry]:
    """The entries of an exported ledger that are whole, oldest first."""
    from operator_sre.ledger.bundle import Bundle

    rows = Bundle(bundle).raw(0, limit=ENTRIES_MAX)
    return [
        entry_from(seq, body, before, linked)
        for seq, body, _, before, linked in rows
        if body is not None
    ]


def _worked_on(incidents: tuple[Incident, ...], what: str) -> tuple[Incident, ...]:
    if not incidents:
        raise UsageError(
            f"Nobody worked on {what}, so that there is nothing to record.",
            next_step="Let an agent work on it first.",
        )
    return incidents


def _course(app: App, subject: str, incident: Incident) -> tuple[Observation, ...]:
    """The looks of the half hour before somebody began to work on it, evenly chosen."""
    until = incident.phases[0].looks[0].sighting.observation.at
    since = until - timedelta(seconds=COURSE_S)
    looks = app.store.observations.after(subject, since, limit=LOOKS_MAX)
    before = [one for one in looks if one.at <= until]
    every = max(1, -(-len(before) // COURSE_MAX))
    redactor = open_redactor(app.config)  # looks are kept as they came, the ledger is not
    return tuple(from_json(Observation, redactor.value(to_json(one))) for one in before[::every])


def _kept(
    app: App,
    subject: str,
    incidents: tuple[Incident, ...],
    expected: Expected,
    output: Path,
) -> Kept:
    plugin = app.plugin_of(subject)
    targets = _targets(app, subject, plugin)
    settings = app.settings_of(subject, lambda: targets)
    part_of = plugin.subject(settings)
    # A subject may know parts that are no process, such as the cluster that its members are.
    incidents = tuple(recollected(one, part_of.targets()) for one in incidents)
    brought = plugin.tools(settings) if plugin.tools is not None else ()
    rig = not _is_configured(app, subject)
    specs = registry_of(app, app.programs, lambda: targets, brought, rig=rig).specs
    recording = Recording(
        subject=subject,
        incidents=incidents,
        expected=expected,
        tools=(*specs, *_of_a_rig(app, subject)),
        causes=plugin.causes,
        notes=notes_of(plugin, part_of),
    )
    write_recording(recording, output)
    phases = [phase for one in incidents for phase in one.phases]
    return Kept(
        file=str(output),
        subject=subject,
        incidents=len(incidents),
        looks=sum(len(one.looks) for one in phases),
        answers=sum(len(one.answers) for one in phases),
        changes=sum(one.change is not None for one in phases),
        source=expected.source,
    )


def _is_configured(app: App, subject: str) -> bool:
    return app.is_alerted(subject) or any(one.name == subject for one in app.config.subjects)


def _of_a_rig(app: App, subject: str) -> tuple[ToolSpec, ...]:
    from operator_sre.lab.tools import RESTART_NODE, RESUME_NODE

    return () if _is_configured(app, subject) else (RESTART_NODE, RESUME_NODE)


def _targets(app: App, subject: str, plugin: Plugin) -> tuple[Target, ...]:
    """Its parts as they are now; of a rig that is gone, as its description tells."""
    try:
        return tuple(app.targets_of(subject))
    except OperatorError:
        if not (plugin.rig or plugin.stack):
            raise
    return parts_of(plugin)


def record_from(
    app: App, database: Path, campaign: str, key: str, output: Path, *, ticket: int | None = None
) -> Kept:
    """Record a trial of a campaign by its key, from the ledger that lies beside the database."""
    if not database.exists():
        raise NotFoundError("There is no campaign yet.", next_step="See: operator eval run --help")
    with open_database(database) as known:
        facts = known.trial(known.campaign(campaign).campaign.name, key)
    if not facts.ledger:
        raise UsageError(f"The trial {key!r} left no ledger, so that there is nothing to record.")
    entries = entries_in(ledger_folder(database, campaign) / Path(facts.ledger).name)
    return record_trial(app, facts, entries, output, ticket=ticket)
