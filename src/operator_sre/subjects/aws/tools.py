"""What can be read and done through the API of AWS.

A change is bound to the id, account, region and state that were approved, and is sent once.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from operator_protocols.domain.action import Action, Argument, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import Prepared
from operator_protocols.errors import OperatorError
from operator_protocols.kit.knowledge import read_knowledge
from operator_protocols.kit.tool import Arguments, Call, Done, RefusedCall, TypedTool, find_target
from operator_protocols.ports import Job, SubjectSettings, Tool
from operator_sre.subjects.aws.client import Aws, AwsError, Options, options_from
from operator_sre.subjects.aws.state import (
    GROUP,
    INSTANCE,
    VOLUME,
    read_group,
    read_instance,
    read_volume,
)
from operator_sre.subjects.aws.subject import observe_region

__all__ = ["KNOWLEDGE", "AwsTool", "aws_tools"]

KNOWLEDGE = read_knowledge(Path(__file__).parent)
POLL_S = 2.0
ACTIVITIES_MAX = 5
# What of the world a change is bound to, beside its id, account and region.
_BOUND = {"state": "state", "current": "desired"}


@dataclass(frozen=True, slots=True)
class Place:
    """A target as AWS shows it now."""

    target: Target
    id: str
    readings: Mapping[str, Value]

    def text(self, name: str) -> str:
        """A reading as text."""
        return str(self.readings.get(name, ""))


class Hands:
    """How tools of one subject reach AWS."""

    def __init__(self, settings: SubjectSettings) -> None:
        self.options: Options = options_from(settings.options)
        self.aws = Aws(settings, self.options)
        self._settings = settings

    async def look(self, name: Argument, kind: str) -> Place:
        """The target as it is now. RefusedCall when there is none of that kind."""
        target = find_target(self._settings.targets(), name, kind)
        region, failures = await observe_region(self.aws, [target])
        if failures:
            raise failures[kind]
        readers = {INSTANCE: read_instance, VOLUME: read_volume, GROUP: read_group}
        readings = readers[kind](region, target.host)
        if readings["exists"] is not True:
            raise RefusedCall(
                f"{target.host} does not exist in {region.account} {self.options.region}.",
                FailureCategory.NOT_FOUND,
            )
        where: dict[str, Value] = {"account": region.account, "region": self.options.region}
        return Place(target, target.host, {**where, **readings})

    async def wait_for(self, place: Place, state: str) -> None:
        """Until an instance is in this state; the time of the call bounds it."""
        while (await self.look(place.target.name, INSTANCE)).text("state") != state:
            await self._settings.clock.sleep(POLL_S)


Act = Callable[[Hands, Place, Call], Awaitable[Done]]


@dataclass(frozen=True, slots=True)
class AwsTool:
    """One tool on targets of one kind."""

    inner: TypedTool
    kind: str
    hands: Hands

    @property
    def spec(self) -> Any:
        """What agents, the gate and people see."""
        return self.inner.spec

    async def prepare(self, arguments: Arguments) -> Prepared:
        """What a call is bound to: the thing of that name, as it is now."""
        if not self.spec.changes:
            return Prepared()
        try:
            place = await self.hands.look(arguments.get("target"), self.kind)
        except RefusedCall as refused:
            return Prepared(flaws=(str(refused),), category=refused.category)
        except (OperatorError, OSError):
            return Prepared()  # the call reports it
        bound: dict[str, Argument] = {
            name: place.text(name) for name in ("id", "account", "region")
        }
        for name, reading in _BOUND.items():
            value = place.readings.get(reading)
            if self.spec.parameter(name) is not None and isinstance(value, str | int):
                bound[name] = value
        return Prepared(bound)

    async def call(self, arguments: Arguments, job: Job) -> Result:
        """Do it. A failure is a Result, and an answer that did not come is unknown."""
        try:
            return await self.inner.call(arguments, job)
        except _UnsureError as unsure:
            return Result(
                Outcome.UNKNOWN, stderr=str(unsure.problem), category=FailureCategory.NETWORK
            )


class _UnsureError(Exception):
    """Whether a change was made is unknown."""

    def __init__(self, problem: AwsError) -> None:
        super().__init__(str(problem))
        self.problem = problem


def aws_tools(settings: SubjectSettings) -> Sequence[Tool]:
    """All of them, for one account and region."""
    hands = Hands(settings)

    def tool(act: Act, kind: str) -> AwsTool:
        spec = KNOWLEDGE.tools[act.__name__]

        async def run(call: Call) -> Done:
            place = await hands.look(call.arguments["target"], kind)
            if spec.changes:
                _must_be_bound(place, call)
            try:
                return await act(hands, place, call)
            except AwsError as problem:
                if spec.changes and problem.unsure:
                    raise _UnsureError(problem) from None
                raise

        return AwsTool(TypedTool(spec, run), kind, hands)

    return (
        tool(describe_instance, INSTANCE),
        tool(check_status, INSTANCE),
        tool(describe_volume, VOLUME),
        tool(describe_group, GROUP),
        tool(reboot_instance, INSTANCE),
        tool(start_instance, INSTANCE),
        tool(stop_instance, INSTANCE),
        tool(scale_group, GROUP),
        tool(snapshot_volume, VOLUME),
    )


def _must_be_bound(place: Place, call: Call) -> None:
    """RefusedCall unless the thing is what was approved, in the state that was approved."""
    for name in ("id", "account", "region"):
        if (approved := call.text(name)) != place.text(name):
            raise RefusedCall(
                f"{place.target.name} has another {name}: {place.text(name) or 'none'}, and"
                f" {approved or 'none'} was approved. Propose the action again.",
                FailureCategory.PERMISSION,
            )
    for name, reading in _BOUND.items():
        if name in call.arguments and call.arguments[name] != place.readings.get(reading):
            raise RefusedCall(
                f"{place.target.name} has changed: its {reading} is"
                f" {place.readings.get(reading)}, and was {call.arguments[name]} when the action"
                " was proposed. Propose it again.",
                FailureCategory.PERMISSION,
            )


def _describe(place: Place, names: Sequence[str] = ()) -> Done:
    data = {
        name: value
        for name, value in place.readings.items()
        if value is not None and (not names or name in names)
    }
    return Done(json.dumps(data, indent=1), data)


async def describe_instance(hands: Hands, place: Place, call: Call) -> Done:
    """Its state and what it is made of; tags and user data stay where they are."""
    return _describe(place)


async def check_status(hands: Hands, place: Place, call: Call) -> Done:
    """Both checks, and how many events AWS has scheduled."""
    names = ("id", "account", "region", "state", "system_status", "instance_status", "events")
    return _describe(place, names)


async def describe_volume(hands: Hands, place: Place, call: Call) -> Done:
    """Its state, size and attachment."""
    return _describe(place)


async def describe_group(hands: Hands, place: Place, call: Call) -> Done:
    """Its capacity, and why its last activities ended as they did."""
    answer = await hands.aws.read(
        "autoscaling",
        "describe_scaling_activities",
        AutoScalingGroupName=place.id,
        MaxRecords=ACTIVITIES_MAX,
    )
    shown = _describe(place)
    lines = [
        f"{each.get('StatusCode')}: {each.get('Description')} {each.get('StatusMessage', '')}"
        for each in answer.get("Activities", ())[:ACTIVITIES_MAX]
    ]
    return replace(shown, sentence="\n".join([shown.sentence, *map(str.strip, lines)]))


async def reboot_instance(hands: Hands, place: Place, call: Call) -> Done:
    """AWS asks the operating system, and cuts its power after four minutes."""
    _must_be(place, "running")
    await hands.aws.change("ec2", "reboot_instances", InstanceIds=[place.id])
    return Done(f"AWS reboots {place.id}.", {"changed": True, "id": place.id})


async def start_instance(hands: Hands, place: Place, call: Call) -> Done:
    """Waits until it runs; its status checks take longer, which the proof sees."""
    _must_be(place, "stopped")
    await hands.aws.change("ec2", "start_instances", InstanceIds=[place.id])
    await hands.wait_for(place, "running")
    return Done(
        f"{place.id} runs.", {"changed": True, "id": place.id}, _undo("stop_instance", place)
    )


async def stop_instance(hands: Hands, place: Place, call: Call) -> Done:
    """Never what a group owns, a spot instance, or an instance that would lose data."""
    _must_be(place, "running")
    if place.readings.get("in_group"):
        raise RefusedCall(
            f"The group {place.text('group')} owns {place.id} and would replace it."
            " Change the group instead."
        )
    if place.readings.get("keeps_data") is not True or place.readings.get("is_spot"):
        raise RefusedCall(f"A stop of {place.id} could lose its data: check it in AWS.")
    await hands.aws.change("ec2", "stop_instances", InstanceIds=[place.id])
    await hands.wait_for(place, "stopped")
    return Done(
        f"{place.id} is stopped.", {"changed": True, "id": place.id}, _undo("start_instance", place)
    )


async def scale_group(hands: Hands, place: Place, call: Call) -> Done:
    """Within the limits of the group, a few instances at a time, and never to none."""
    wanted, current = call.integer("desired"), place.readings.get("desired")
    low, high = place.readings.get("minimum"), place.readings.get("maximum")
    step_max = hands.options.scale_step_max
    if not (isinstance(current, int) and isinstance(low, int) and isinstance(high, int)):
        raise RefusedCall(f"AWS did not say how many instances {place.id} may have.")
    if wanted == current:
        return Done(f"{place.id} has {current} already.", {"changed": False, "desired": current})
    if not max(1, low) <= wanted <= high:
        raise RefusedCall(
            f"{place.id} can have {max(1, low)} to {high} instances, not {wanted}."
            " Only a person changes these limits."
        )
    if abs(wanted - current) > step_max:
        raise RefusedCall(
            f"{place.id} would go from {current} to {wanted}, and one change may be {step_max}"
            " (scale_step_max). Take smaller steps, and check in between."
        )
    await hands.aws.change(
        "autoscaling",
        "set_desired_capacity",
        AutoScalingGroupName=place.id,
        DesiredCapacity=wanted,
        HonorCooldown=False,
    )
    undo = replace(
        _undo("scale_group", place), arguments={"target": place.target.name, "desired": current}
    )
    data: dict[str, Value] = {"changed": True, "before": current, "desired": wanted}
    return Done(f"{place.id} wants {wanted} instances (previously {current}).", data, undo)


async def snapshot_volume(hands: Hands, place: Place, call: Call) -> Done:
    """It is complete when AWS has copied what was on the volume at this moment."""
    if place.text("state") not in ("available", "in-use"):
        raise RefusedCall(f"{place.id} is {place.text('state')}: there is nothing to copy.")
    answer = await hands.aws.change(
        "ec2",
        "create_snapshot",
        VolumeId=place.id,
        Description=f"Operator: {place.target.name}",
    )
    snapshot = str(answer.get("SnapshotId", ""))
    return Done(
        f"AWS takes the snapshot {snapshot} of {place.id}.",
        {"changed": True, "snapshot": snapshot, "volume": place.id},
    )


def _must_be(place: Place, state: str) -> None:
    if place.text("state") != state:
        raise RefusedCall(f"{place.id} is {place.text('state')}, not {state}.")


def _undo(tool: str, place: Place) -> Action:
    name = place.target.name
    return Action(tool, {"target": name}, target=name, reasoning="roll the change back")
