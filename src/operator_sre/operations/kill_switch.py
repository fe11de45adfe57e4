"""The kill switch: stop everything, and let it go on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from msgspec import Meta

from operator_protocols.domain.limits import SwitchState
from operator_protocols.domain.token import Role
from operator_sre.app.restraints import Stopped
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.drawing import plural
from operator_sre.operations.operation import Effect, Operation, Request, Route, View

__all__ = ["OPERATIONS", "SUMMARY", "StoppedDocument", "SwitchDocument"]

SUMMARY = "Stop all actions at once, and resume."


class ShowSwitch(Request, frozen=True):
    """No parameters."""


class TurnOn(Request, frozen=True):
    """Why, and whether checks go on."""

    changes_only: Annotated[
        bool,
        Meta(
            description="Cancel pending changes and set every subject to observe;"
            " checks go on, and nothing that runs is killed."
        ),
    ] = False
    reason: Annotated[str, Meta(max_length=4000, description="Recorded in the audit log.")] = ""


class TurnSwitch(Request, frozen=True):
    """Why."""

    reason: Annotated[str, Meta(max_length=4000, description="Recorded in the audit log.")] = ""


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


def _show_stopped(found: StoppedDocument, now: datetime) -> View:
    stopped = found.stopped
    if stopped.observed:
        return [
            f"Changes are stopped, after {stopped.took_s:.2f} s. Checks go on.",
            f"set to observe: {', '.join(stopped.observed)}",
            f"pending requests cancelled: {len(stopped.pending_proposals)}",
            *(f"still running: {command.seq}  {command.command}" for command in stopped.partly_run),
            "Nothing is changed until: operator mode reset",
        ]
    docker = stopped.docker or f"{plural(len(stopped.docker_containers), 'container')} stopped"
    return [
        f"The kill switch is on, after {stopped.took_s:.2f} s.",
        f"pending requests cancelled: {len(stopped.pending_proposals)}",
        f"processes stopped: {', '.join(map(str, stopped.processes)) or 'none'}",
        f"docker: {docker}",
        f"tickets released: {', '.join(map(str, stopped.tasks)) or 'none'}",
        *(
            f"may have partly run: {command.seq}  {command.command}"
            for command in stopped.partly_run
        ),
        "Nothing is permitted until: operator kill-switch off",
    ]


def _state(found: SwitchDocument, now: datetime) -> View:
    state = found.switch
    word = "on" if state.on else "off"
    who = f", by {state.by} at {state.at:%Y-%m-%d %H:%M:%S} UTC" if state.at else ""
    why = f": {state.reason}" if state.reason else ""
    return [f"The kill switch is {word}{who}{why}."]


OPERATIONS = (
    Operation(
        name="kill-switch on",
        help="Stop all running actions, cancel pending ones, and permit nothing.",
        request=TurnOn,
        result=StoppedDocument,
        call="operator_sre.app.restraints.switch_on",
        view=_show_stopped,
        effect=Effect.CHANGE,
        role=Role.APPROVER,
        route=Route("POST", "/v1/kill-switch/engage", "engage_kill_switch", "EngageRequest"),
        waiting="stopping everything",
    ),
    Operation(
        name="kill-switch off",
        help="Permit actions again. Earlier permits stay void.",
        request=TurnSwitch,
        result=SwitchDocument,
        call="operator_sre.app.restraints.switch_off",
        confirmation="operator_sre.app.restraints.switch_asked",
        confirmed="operator_sre.app.restraints.switch_state",
        view=_state,
        effect=Effect.CHANGE,
        role=Role.ADMIN,
        route=Route("POST", "/v1/kill-switch/release", "release_kill_switch", "SwitchRequest"),
    ),
    Operation(
        name="kill-switch status",
        help="Show whether it is on, who switched it, and why.",
        request=ShowSwitch,
        result=SwitchDocument,
        call="operator_sre.app.restraints.switch_state",
        view=_state,
        route=Route("GET", "/v1/kill-switch", "show_kill_switch"),
    ),
)
