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
from operator_sre.faces.web.forms import Form, form_of
from operator_sre.faces.web.renderer import guard, render
from operator_sre.faces.web.responses import home_of, page, part, redirect, session_of
from operator_sre.faces.web.routes import does, router_of, shows

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["router"]

PLACE = "/terminal"
COMMAND_MAX = 16_000
SECONDS_MAX = 600
JOBS_SHOWN = 20
# Facts that the verdict already shows, or that are of no use while typing.
_LEFT_OUT = frozenset({"", "command", "verdict", "with", "who", "limits", "why", "expects"})
router = router_of()


@shows(router, PLACE)
async def terminal(request: Request) -> Response:
    """The command form, and recent commands."""

    def facts(home: App) -> Mapping[str, Any]:
        names = [subject.name for subject in list_subjects(home)]
        return {
            "subjects": names,
            "seconds_max": SECONDS_MAX,
            "observes": home.config.mode is Mode.OBSERVE,
            **_jobs(request),
            **_nothing(),
        }

    return await page(request, "terminal.html", facts, title="Terminal")


@shows(router, f"/parts{PLACE}")
async def list_jobs(request: Request) -> Response:
    """The state of recent commands."""
    return await part(request, "parts/terminal_jobs.html", lambda _: _jobs(request))


@does(router, f"{PLACE}/check", role=Role.VIEWER, once=False)
async def check(request: Request) -> Response:
    """What would become of a command; nothing is run, and nothing is written."""
    wanted = _read_form(await form_of(request))
    home = home_of(request)

    def facts() -> Mapping[str, Any]:
        # An unfinished command is not an error.
        if not wanted.command.strip():
            return _nothing()
        try:
            outlook = foresee_command(home, wanted)
        except OperatorError as error:
            return {**_nothing(), "problem": f"{error.message} {error.next_step}".strip()}
        left_out = _LEFT_OUT if wanted.target or wanted.subject else _LEFT_OUT | {"target"}
        known = [(name, text) for name, text in facts_of(outlook) if text and name not in left_out]
        return {"verdict": outlook.verdict, "facts": known, "problem": ""}

    text = render("parts/terminal_verdict.html", await asyncio.to_thread(facts))
    return HTMLResponse(guard(text, session_of(request)))


@does(router, f"{PLACE}/run", role=Role.APPROVER)
async def run(request: Request) -> Response:
    """Start a command; an approver decides on the approvals page."""
    wanted = _read_form(await form_of(request))
    _jobs_of(request).begin(wanted)
    return redirect(request, "The command was submitted. Its output is shown below.", to=PLACE)


@does(router, f"{PLACE}/{{job}}/cancel", role=Role.APPROVER)
async def cancel(request: Request, job: Annotated[str, Path(max_length=40)]) -> Response:
    """Stop a command, or withdraw its request for approval."""
    admin = session_of(request).role.may(Role.ADMIN)
    _jobs_of(request).cancel(job, admin=admin)
    return redirect(request, "The command is being cancelled.", to=PLACE)


def _jobs_of(request: Request) -> Jobs:
    return cast("Jobs", request.app.state.jobs)


def _read_form(form: Form) -> Wanted:
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


def _jobs(request: Request) -> Mapping[str, Any]:
    return {"jobs": _jobs_of(request).newest(limit=JOBS_SHOWN)}


def _nothing() -> Mapping[str, Any]:
    return {"verdict": None, "facts": (), "problem": ""}
