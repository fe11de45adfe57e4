"""The terminal: a command is judged while it is typed, runs through the gate, and is followed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, cast

from fastapi import Path, Request, Response
from fastapi.responses import HTMLResponse

from operator_protocols.domain.token import Role
from operator_protocols.domain.verdict import Mode
from operator_protocols.errors import OperatorError, UsageError
from operator_sre.app.commands import Jobs, Wanted, foresee_command
from operator_sre.app.outlook import facts_of
from operator_sre.app.subjects import list_subjects
from operator_sre.faces.web.answering import done, home_of, page, part, session_of
from operator_sre.faces.web.doors import does, router_of, shows
from operator_sre.faces.web.forms import Form, form_of
from operator_sre.faces.web.rendering import guarded, rendered

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["router"]

PLACE = "/terminal"
COMMAND_MAX = 16_000
SECONDS_MAX = 600
JOBS_SHOWN = 20
# What a verdict says already, and what nobody reads while typing.
_LEFT_OUT = frozenset({"", "command", "verdict", "with", "who", "limits", "why", "expects"})
router = router_of()


@shows(router, PLACE)
async def terminal(request: Request) -> Response:
    """Where one types, and what was begun here."""
    return await page(
        request, "terminal.html", lambda home: _facts(request, home), title="Terminal"
    )


@shows(router, f"/parts{PLACE}")
async def begun(request: Request) -> Response:
    """What was begun from here, and how it goes."""
    return await part(request, "parts/terminal_jobs.html", lambda _: _jobs(request))


@does(router, f"{PLACE}/check", role=Role.VIEWER, once=False)
async def check(request: Request) -> Response:
    """What would become of a command; nothing is run, and nothing is written."""
    wanted = _wanted(await form_of(request))
    facts = await asyncio.to_thread(_foreseen, home_of(request), wanted)
    text = rendered("parts/terminal_verdict.html", facts)
    return HTMLResponse(guarded(text, session_of(request)))


@does(router, f"{PLACE}/run", role=Role.APPROVER)
async def run(request: Request) -> Response:
    """Begin a command; whoever is asked about it answers where requests are answered."""
    wanted = _wanted(await form_of(request))
    _jobs_of(request).begin(wanted)
    return done(request, "The command was submitted. Its output is shown below.", to=PLACE)


@does(router, f"{PLACE}/{{job}}/cancel", role=Role.APPROVER)
async def cancel(request: Request, job: Annotated[str, Path(max_length=40)]) -> Response:
    """End a command, or take back the question about it."""
    admin = session_of(request).role.may(Role.ADMIN)
    _jobs_of(request).cancel(job, admin=admin)
    return done(request, "The command is being cancelled.", to=PLACE)


def _jobs_of(request: Request) -> Jobs:
    return cast("Jobs", request.app.state.jobs)


def _wanted(form: Form) -> Wanted:
    cwd = form.text("cwd", most=1000) or "/"
    if not PurePosixPath(cwd).is_absolute():
        raise UsageError(f"{cwd!r} is not an absolute path.", next_step="Start it with a slash.")
    seconds = form.number("seconds", least=1, most=SECONDS_MAX) if form.text("seconds") else 120
    return Wanted(
        form.text("command", most=COMMAND_MAX),
        cwd=cwd,
        subject=form.text("subject", most=200),
        target=form.text("target", most=200),
        timeout_s=float(seconds),
        reason=form.text("reason"),
    )


def _facts(request: Request, home: App) -> Mapping[str, Any]:
    names = [one.name for one in list_subjects(home)]
    return {
        "subjects": names,
        "seconds_max": SECONDS_MAX,
        "observes": home.config.mode is Mode.OBSERVE,
        **_jobs(request),
        **_nothing(),
    }


def _jobs(request: Request) -> Mapping[str, Any]:
    return {"jobs": _jobs_of(request).newest(limit=JOBS_SHOWN)}


def _nothing() -> Mapping[str, Any]:
    return {"verdict": None, "facts": (), "problem": ""}


def _foreseen(home: App, wanted: Wanted) -> Mapping[str, Any]:
    """While somebody types, what is half there is no error of theirs."""
    if not wanted.command.strip():
        return _nothing()
    try:
        outlook = foresee_command(home, wanted)
    except OperatorError as error:
        return {**_nothing(), "problem": f"{error.message} {error.next_step}".strip()}
    left_out = _LEFT_OUT if wanted.target or wanted.subject else _LEFT_OUT | {"target"}
    facts = [(name, text) for name, text in facts_of(outlook) if text and name not in left_out]
    return {"verdict": outlook.verdict, "facts": facts, "problem": ""}
