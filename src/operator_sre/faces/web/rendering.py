"""Templates become pages here, and nowhere else: escaped, visible, without a script in them."""

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

from operator_sre.drawing import figure, plural, span, visible
from operator_sre.faces.web.assets import url_of
from operator_sre.faces.web.navigation import PLACES

if TYPE_CHECKING:
    from operator_sre.faces.web.sessions import Session

__all__ = ["guarded", "rendered", "templates", "when"]

FOLDER = Path(__file__).parent / "templates"
# What stands in a rendering for what only one session may see, so that all can share the rest.
# Nobody outside this process can know them, and so nobody can write them into a page.
_CSRF_MARK = f"csrf-{secrets.token_hex(16)}"
_SEAL_MARK = f"seal-{secrets.token_hex(16)}"
_SEAL = re.compile(_SEAL_MARK)
_GUARD = Markup(  # noqa: S704 - both are made of hexadecimal digits
    f'<input type="hidden" name="csrf" value="{_CSRF_MARK}">'
    f'<input type="hidden" name="seal" value="{_SEAL_MARK}">'
)


@cache
def templates() -> Environment:
    """All templates. What is not there is an error, and what comes from outside does nothing."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals.update(asset=url_of, guard=_guard, csrf=_CSRF_MARK, PLACES=PLACES)
    environment.filters.update(
        figure=figure, plural=plural, span=span, when=when, count=lambda some: len(some)
    )
    return environment


def rendered(template: str, facts: Mapping[str, Any]) -> str:
    """A template with what it shows; forms still have marks where a session belongs."""
    return templates().get_template(template).render(facts)


def guarded(text: str, session: Session) -> bytes:
    """A rendering for one session: each form has its token, and a seal of its own."""
    text = _SEAL.sub(lambda _: session.seal(), text.replace(_CSRF_MARK, session.csrf))
    # What was read may hold halves of letters, which no page can.
    return text.encode("utf-8", "backslashreplace")


def when(at: datetime | None, *, style: str = "") -> Markup:
    """A moment, in UTC until our script shows it in the zone of whoever looks.

    `style` is "" for date and time, `clock` for the time of day, `ago` for how long ago it was.
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


def _guard() -> Markup:
    return _GUARD


def _shown(value: object) -> object:
    """What is hidden in text from outside is shown: escapes of terminals, marks of direction."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, str):
        return escape(visible(value, lines=True))
    return value
