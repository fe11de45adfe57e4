"""Who is at the keyboard, a person or an agent of theirs, and whether they may."""

from __future__ import annotations

import os
import socket

from operator_protocols.domain.entry import Actor
from operator_protocols.errors import AuthorityError
from operator_sre.app.acting import by_an_agent
from operator_sre.app.approvals import signed_in
from operator_sre.app.wiring import App

__all__ = ["administrator", "myself"]


def myself() -> Actor:
    """A person, who is an agent of their own on each machine; or the agent they let run us."""
    person = signed_in()
    kind = "agent" if by_an_agent() else "user"
    return Actor(person, kind, f"{person}@{socket.gethostname()}:{os.getpid()}")


def administrator(app: App, deed: str) -> str:
    """Whoever is signed in; AuthorityError when they may not do what holds for everybody."""
    person = signed_in()
    refusal = app.permissions.may_administer(person, deed)
    if refusal:
        raise AuthorityError(refusal, next_step="Ask an admin.")
    return person
