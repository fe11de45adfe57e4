"""Subjects: health, invariants, recent readings, and silences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Path, Query, Request, Response
from markupsafe import Markup

from operator_protocols.domain.token import Role
from operator_sre.app.health import show_health
from operator_sre.app.silences import add_silence, end_silence, list_silences
from operator_sre.app.subjects import Point as Seen
from operator_sre.app.subjects import (
    Series,
    list_subjects,
    replay_history,
    show_subject,
    subject_history,
)
from operator_sre.drawing import Chart, Point, Tick, charts
from operator_sre.faces.web.forms import form_of
from operator_sre.faces.web.pictures import bar
from operator_sre.faces.web.responses import home_of, page, part, redirect
from operator_sre.faces.web.routes import does, router_of, shows

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["router"]

PLACE = "/subjects"
PERIODS = ("15m", "1h", "6h", "24h")
CHARTS_MAX = 12
POINTS_MAX = 240
SPELLS_MAX = 50
router = router_of()
Name = Annotated[str, Path(max_length=200)]
Pattern = Annotated[str, Query(max_length=100)]
Period = Annotated[str, Query(pattern=f"^({'|'.join(PERIODS)})$")]


@shows(router, PLACE)
async def subjects(request: Request) -> Response:
    """All subjects, and what is kept quiet."""

    def facts(home: App) -> Mapping[str, Any]:
        configured = home.config.subjects
        windows = [(subject.name, window) for subject in configured for window in subject.windows]
        return {**_rows(home), **_silences(home), "windows": windows}

    return await page(request, "subjects.html", facts, title="Subjects")


@shows(router, "/parts/subjects")
async def rows(request: Request) -> Response:
    """The list, as it is now."""
    return await part(request, "parts/subjects_rows.html", _rows)


@shows(router, "/parts/silences")
async def quiet(request: Request) -> Response:
    """What opens no tickets now."""
    return await part(request, "parts/silences.html", _silences)


@shows(router, f"{PLACE}/{{name}}")
async def subject(
    request: Request,
    name: Name,
    since: Period = "1h",
    target: Pattern = "*",
    reading: Pattern = "*",
) -> Response:
    """One subject: its health, its invariants and readings over time, what can be done to it."""
    targets, readings = target or "*", reading or "*"

    def facts(home: App) -> Mapping[str, Any]:
        view = show_subject(home, name)
        replayed = replay_history(home, name, target=targets, since=since)
        history = subject_history(home, name, target=targets, reading=readings, since=since)
        ends = (replayed.since, replayed.until)
        looked = [point.at for series in history.series for point in series.points]
        seen = (min(looked), max(looked)) if looked else None
        bars = {
            invariant.name: bar(
                invariant.name,
                [(it.since, it.until) for it in replayed.spells if it.invariant == invariant.name],
                ends,
                seen,
            )
            for invariant in view.invariants
        }
        spells = sorted(replayed.spells, key=lambda spell: spell.since, reverse=True)
        # A picture of a value that never changes shows nothing.
        moved = []
        for series in history.series:
            values = {point.value for point in series.points}
            if sum(isinstance(value, int | float) for value in values) > 1:
                moved.append(series)
        return {
            **_health(home, name),
            "subject": view,
            "at": ends[1],
            "bars": bars,
            "spells": spells[:SPELLS_MAX],
            "looks": history.looks,
            "pictures": _pictures(moved[:CHARTS_MAX], ends),
            "left_out": max(0, len(moved) - CHARTS_MAX) + history.left_out,
            "since": since,
            "target": targets,
            "reading": readings,
            "periods": PERIODS,
        }

    return await page(request, "subject.html", facts, title=name)


@shows(router, f"/parts{PLACE}/{{name}}/health")
async def health(request: Request, name: Name) -> Response:
    """How it is now."""
    return await part(request, "parts/subject_health.html", lambda home: _health(home, name))


@does(router, "/silences/add", role=Role.ADMIN)
async def add(request: Request) -> Response:
    """Open no tickets for what matches, for a while."""
    form = await form_of(request)
    silence = await add_silence(
        home_of(request),
        subject=form.text("subject") or "*",
        target=form.text("target") or "*",
        invariant=form.text("invariant") or "*",
        until="",
        for_=form.text("for", needed=True),
        reason=form.text("reason", needed=True),
    )
    return redirect(
        request, f"Silence {silence.id} added until {silence.until:%Y-%m-%d %H:%M} UTC.", to=PLACE
    )


@does(router, "/silences/end", role=Role.APPROVER)
async def end(request: Request) -> Response:
    """End a silence; a target that is still broken opens a ticket at the next check."""
    form = await form_of(request)
    silence = await end_silence(
        home_of(request), form.text("silence", needed=True), reason=form.text("reason")
    )
    return redirect(request, f"Silence {silence.id} ended.", to=PLACE)


def _rows(home: App) -> Mapping[str, Any]:
    return {"subjects": list_subjects(home)}


def _silences(home: App) -> Mapping[str, Any]:
    return {"silences": list_silences(home, every=False)}


def _health(home: App, name: str) -> Mapping[str, Any]:
    shown = next(
        (subject for subject in show_health(home).subjects if subject.subject == name), None
    )
    return {"health": shown}


def _pictures(some: Sequence[Series], ends: tuple[datetime, datetime]) -> Markup:
    if not some:
        return Markup("")
    begin = ends[0]
    drawn = charts(
        [
            Chart(
                f"{series.target}: {series.reading}",
                tuple(
                    Point((point.at - begin).total_seconds(), point.value, point.problem)
                    for point in _thin(series.points)
                ),
            )
            for series in some
        ],
        [],
        spans=(0.0, max(1.0, (ends[1] - begin).total_seconds())),
        broken=None,
        tick=Tick(f"{begin:%H:%M} UTC", f"{ends[1]:%H:%M} UTC"),
        legend={},
    )
    return Markup(drawn)  # noqa: S704 - drawn by us, where all names are escaped


def _thin(points: Sequence[Seen]) -> Sequence[Seen]:
    """Few enough for a picture; the first and the last stay."""
    if len(points) <= POINTS_MAX:
        return points
    step = (len(points) - 1) / (POINTS_MAX - 1)
    return [points[round(at * step)] for at in range(POINTS_MAX)]
