"""Renders templates: everything is escaped and visible, without inline scripts."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from operator_sre.app.extras import has_evals
from operator_sre.app.ticket_page import fold_findings, reason_listed
from operator_sre.drawing import figure, plural, span, visible
from operator_sre.faces.web.assets import url_of
from operator_sre.operations import all_operations
from operator_sre.operations.operation import Place

if TYPE_CHECKING:
    from operator_sre.faces.web.sessions import Session

__all__ = ["PLACES", "guard", "render", "templates", "when"]

# The pages in the navigation, in order; pages of operations follow the history.
PLACES = (
    Place("Overview", "/", "o"),
    Place("Tickets", "/tickets", "t"),
    Place("Approvals", "/approvals", "a"),
    Place("Terminal", "/terminal", "r"),
    Place("History", "/history", "h"),
    *(operation.place for operation in all_operations() if operation.place),
    Place("Audit", "/audit", "u"),
    Place("Policy", "/policy", "p", also="/confirmations/"),
    Place("Subjects", "/subjects", "s"),
    *([Place("Evals", "/evals", "e")] if has_evals() else []),
    Place("Settings", "/settings", "n"),
)
FOLDER = Path(__file__).parent / "templates"
# Placeholders for what belongs to one session, so that sessions can share the rest of a page.
# They are random, so that no text from outside can contain them.
_CSRF_MARK = f"csrf-{secrets.token_hex(16)}"
_SEAL_MARK = f"seal-{secrets.token_hex(16)}"
_SEAL = re.compile(_SEAL_MARK)
_GUARD = Markup(  # noqa: S704 - both are hexadecimal
    f'<input type="hidden" name="csrf" value="{_CSRF_MARK}">'
    f'<input type="hidden" name="seal" value="{_SEAL_MARK}">'
)


@cache
def templates() -> Environment:
    """All templates. An unknown name is an error, and text from outside is escaped."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_show,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals.update(
        asset=url_of,
        guard=lambda: _GUARD,
        csrf=_CSRF_MARK,
        fold_findings=fold_findings,
        reason_listed=reason_listed,
        PLACES=PLACES,
    )
    environment.filters.update(figure=figure, plural=plural, span=span, when=when, count=len)
    return environment


def render(template: str, facts: Mapping[str, Any]) -> str:
    """A rendered template; its forms still hold the placeholders of a session."""
    return templates().get_template(template).render(facts)


def guard(text: str, session: Session) -> bytes:
    """A rendering for one session: each form gets the CSRF token and a seal of its own."""
    text = _SEAL.sub(lambda _: session.seal(), text.replace(_CSRF_MARK, session.csrf))
    # Text from outside may hold lone surrogates, which UTF-8 cannot encode.
    return text.encode("utf-8", "backslashreplace")


def when(at: datetime | None, *, style: str = "") -> Markup:
    """A moment in UTC, which the script of the page shows in the browser's time zone.

    `style` is "" for date and time, `clock` for the time of day, `ago` for the age.
    """
    if at is None:
        return Markup("never")
    utc = at.astimezone(UTC)
    text = f"{utc:%H:%M:%S}" if style == "clock" else f"{utc:%Y-%m-%d %H:%M:%S}"
    return Markup('<time datetime="{}" title="{} UTC" data-style="{}">{} UTC</time>').format(
        utc.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        f"{utc:%Y-%m-%d %H:%M:%S}",
        style,
        text,
    )


def _show(value: object) -> object:
    """Make hidden characters of text from outside visible: terminal escapes, direction marks."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, str):
        return escape(visible(value, lines=True))
    return value
