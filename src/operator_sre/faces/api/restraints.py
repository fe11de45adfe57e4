"""What holds agents back: the mode of each subject, and the kill switch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec
from fastapi import APIRouter, Request, Response

from operator_protocols.domain.switch import SwitchState
from operator_protocols.domain.token import Role
from operator_protocols.domain.verdict import Mode
from operator_sre.app import confirmations
from operator_sre.app.loosening import switch_asked
from operator_sre.app.modes import ModeView, execute_asked, set_modes, show_modes
from operator_sre.app.switch import Stopped, switch_off, switch_on, switch_state
from operator_sre.contract.messages import SCHEMA_VERSION
from operator_sre.faces.api.answering import answer
from operator_sre.faces.api.confirmations import Pending, pending_on
from operator_sre.faces.api.doors import Door, ask, home_of, opens, told

__all__ = [
    "ModePage",
    "ModeRequest",
    "StoppedDocument",
    "SwitchDocument",
    "SwitchRequest",
    "router",
]

router = APIRouter(route_class=Door, prefix="/v1")
Reason = Annotated[str, msgspec.Meta(max_length=4000)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Names = Annotated[tuple[Name, ...], msgspec.Meta(max_length=100)]


@dataclass(frozen=True, slots=True)
class ModePage:
    """The mode that counts for every subject, and whose word it is."""

    modes: tuple[ModeView, ...]
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class SwitchDocument:
    """How the kill switch stands."""

    switch: SwitchState
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class StoppedDocument:
    """What the kill switch found and stopped."""

    stopped: Stopped
    schema_version: str = SCHEMA_VERSION


class ModeRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mode for these subjects, or for the only one there is."""

    mode: Mode
    subjects: Names = ()
    reason: Reason = ""


class SwitchRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why."""

    reason: Reason = ""


@opens(router, "GET", "/mode", role=Role.VIEWER, answers=ModePage)
async def show_mode(request: Request) -> Response:
    """The mode of every subject, and whose word it is."""
    return answer(ModePage(tuple(await ask(home_of(request), show_modes))))


@opens(
    router,
    "POST",
    "/mode",
    role=Role.ADMIN,
    asks=ModeRequest,
    answers=ModePage,
    errors=[404],
    pending=Pending,
)
async def set_mode(request: Request) -> Response:
    """Set it for these subjects, instead of the configured one; what executes is asked first."""
    home, wanted = home_of(request), await told(request, ModeRequest)
    asked = await ask(home, execute_asked, wanted.mode, wanted.subjects, reason=wanted.reason)
    if asked is not None:
        return pending_on(await confirmations.request(home, asked))
    views = await set_modes(home, wanted.mode, wanted.subjects, reason=wanted.reason)
    return answer(ModePage(tuple(views)))


@opens(router, "GET", "/kill-switch", role=Role.VIEWER, answers=SwitchDocument)
async def show_kill_switch(request: Request) -> Response:
    """How it stands, who turned it, and why."""
    return answer(SwitchDocument(await ask(home_of(request), switch_state)))


@opens(
    router,
    "POST",
    "/kill-switch/engage",
    role=Role.APPROVER,
    asks=SwitchRequest,
    answers=StoppedDocument,
)
async def engage_kill_switch(request: Request) -> Response:
    """End what runs, cancel what waits, permit nothing. Fine when it is on already."""
    asked = await told(request, SwitchRequest)
    return answer(StoppedDocument(await switch_on(home_of(request), reason=asked.reason)))


@opens(
    router,
    "POST",
    "/kill-switch/release",
    role=Role.ADMIN,
    asks=SwitchRequest,
    answers=SwitchDocument,
    pending=Pending,
)
async def release_kill_switch(request: Request) -> Response:
    """Let permits be given again, once a person confirms it; those from before stay void."""
    home, wanted = home_of(request), await told(request, SwitchRequest)
    asked = await ask(home, switch_asked, reason=wanted.reason)
    if asked is not None:
        return pending_on(await confirmations.request(home, asked))
    return answer(SwitchDocument(await switch_off(home, reason=wanted.reason)))
