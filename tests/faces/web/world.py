"""A home in which everything has happened, the console in front of it, and people who sign in."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2

from operator_protocols.domain.token import Audience
from operator_sre.app.wiring import App
from operator_sre.faces.web.application import Console, application
from tests.contract.clock import HeldClock
from tests.faces.api.world import World, world_at

__all__ = ["ORIGIN", "Person", "Web", "fields_of", "web_at"]

ORIGIN = "http://localhost"
RATE = 1e9
_HIDDEN = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')


def fields_of(text: str, action: str = "") -> dict[str, str]:
    """The hidden fields of the first form of a page, or of the one with this action."""
    for form in re.findall(r"<form\b.*?</form>", text, re.DOTALL):
        if not action or f'action="{action}"' in form or f'hx-post="{action}"' in form:
            return {name: unescape(value) for name, value in _HIDDEN.findall(form)}
    return {}


@dataclass
class Person:
    """A browser without a script: it keeps cookies, says where it comes from, and sends forms."""

    console: Console
    cookies: dict[str, str] = field(default_factory=dict)
    last: httpx2.Response | None = None

    def ask(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """One request; nobody is led anywhere by the answer."""
        headers: dict[str, str] = {"origin": ORIGIN} if method == "POST" else {}
        headers |= options.pop("headers", {})
        if self.cookies:
            headers["cookie"] = "; ".join(f"{name}={one}" for name, one in self.cookies.items())

        async def ask() -> httpx2.Response:
            transport = httpx2.ASGITransport(app=self.console, raise_app_exceptions=False)
            async with httpx2.AsyncClient(transport=transport, base_url=ORIGIN) as client:
                return await client.request(method, path, headers=headers, **options)

        answer = asyncio.run(ask())
        self.cookies |= dict(answer.cookies)
        self.last = answer
        return answer

    def get(self, path: str, **options: Any) -> httpx2.Response:
        """A page."""
        return self.ask("GET", path, **options)

    def part(self, path: str) -> httpx2.Response:
        """A part of a page, as our script asks for it."""
        return self.ask("GET", path, headers={"hx-request": "true"})

    def post(
        self, path: str, fields: Mapping[str, str] | None = None, **options: Any
    ) -> httpx2.Response:
        """Exactly these fields, as a form."""
        kind = {"content-type": "application/x-www-form-urlencoded"}
        headers = {**kind, **options.pop("headers", {})}
        body = urlencode(fields or {}).encode()
        return self.ask("POST", path, content=body, headers=headers, **options)

    def send(self, page: str, action: str, **fields: str) -> httpx2.Response:
        """Open a page, fill in its form for `action`, and send it, as a person does."""
        hidden = fields_of(self.get(page).text, action)
        assert hidden, f"{page} has no form for {action}"
        return self.post(action, {**hidden, **fields})

    def guard(self) -> dict[str, str]:
        """What a form of this session holds, for a deed without a page."""
        return fields_of(self.get("/kill-switch").text, "/sign-out")


@dataclass
class Web:
    """Everything a test of the console holds. `api` is the world below: its store and its clock."""

    api: World
    console: Console
    people: dict[str, Person] = field(default_factory=dict)

    @property
    def app(self) -> App:
        """The home."""
        return self.api.app

    @property
    def clock(self) -> HeldClock:
        """Time goes on when a test says so."""
        return self.api.clock

    @property
    def state(self) -> Any:
        """What the pages share: sessions, hub, renderings, refusals."""
        return self.console.pages.state

    def stranger(self) -> Person:
        """Somebody who is not signed in."""
        return Person(self.console)

    def person(self, role: str = "admin") -> Person:
        """Somebody who is signed in with the token of a role, the same for the whole module."""
        known = self.people.get(role)
        if known is None or known.get("/parts/standing").status_code != 200:
            known = self.people[role] = self.sign_in(role)
        return known

    def sign_in(self, name: str = "admin") -> Person:
        """A new browser with a session of its own."""
        person = self.stranger()
        answer = person.post("/sign-in", {"token": self.api.secrets[name], "next": "/"})
        assert answer.status_code == 303, answer.text
        return person


@contextmanager
def web_at(folder: Path) -> Iterator[Web]:
    """A world in this folder, for the length of a `with`."""
    with world_at(folder, Audience.WEB) as world:
        console = application(world.app, rate=RATE, stranger_rate=RATE)
        # Its clock stands still, and so nobody would be let in after a few.
        console.pages.state.attempts.burst = RATE
        yield Web(world, console)
