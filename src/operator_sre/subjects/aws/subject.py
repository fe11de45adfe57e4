"""Observation of one AWS account and region: the instances, volumes and groups that are listed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from operator_protocols.domain.observation import Observation, Seen, Trouble, Value
from operator_protocols.domain.target import Target
from operator_protocols.errors import OperatorError
from operator_protocols.kit.subject import BaseSubject, see_stranger
from operator_protocols.ports import SubjectSettings
from operator_sre.subjects.aws.client import Aws, AwsError, options_from
from operator_sre.subjects.aws.invariants import invariants_of
from operator_sre.subjects.aws.state import (
    GROUP,
    INSTANCE,
    KINDS,
    VOLUME,
    Json,
    Region,
    read_group,
    read_instance,
    read_volume,
)

__all__ = ["AwsRegion", "observe_region"]

# Of the calls that take ids, the one with the lowest limit takes 50.
PER_CALL_MAX = 50
_READERS: Mapping[str, Callable[[Region, str], dict[str, Value]]] = {
    INSTANCE: read_instance,
    VOLUME: read_volume,
    GROUP: read_group,
}


class AwsRegion(BaseSubject):
    """Targets of kind `instance`, `volume` and `group`; `host` has the id, or a group's name."""

    def __init__(self, settings: SubjectSettings) -> None:
        options = options_from(settings.options)
        super().__init__(settings, invariants_of(options))
        self._aws = Aws(settings, options)

    async def observe(self) -> Observation:
        """Observe once, with a few calls for all targets; what AWS refuses is a problem of each."""
        targets = self.present_targets()
        try:
            region, failures = await observe_region(self._aws, targets)
        except OperatorError as problem:
            region, failures = Region(""), dict.fromkeys(KINDS, problem)
        shared: dict[str, Value] = {"account": region.account, "region": self._aws.options.region}
        seen = []
        for target in targets:
            if target.kind not in KINDS:
                seen.append(see_stranger(target))
            elif target.kind in failures:
                failure = failures[target.kind]
                denied = isinstance(failure, AwsError) and bool(failure.code)
                trouble = Trouble.CREDENTIAL if denied else Trouble.NOTHING
                seen.append(Seen(target.name, problem=str(failure), trouble=trouble))
            else:
                readings = _READERS[target.kind](region, target.host)
                seen.append(Seen(target.name, {**shared, **readings}))
        self._note_changes(seen)
        return self.observation(seen)

    def _note_changes(self, seen: Iterable[Seen]) -> None:
        """Who changed a size, a type or the limits of a group wants to be remembered."""
        now = self.settings.clock.now()
        for each in seen:
            state = {
                name: str(each.readings[name])
                for name in ("type", "desired", "minimum", "maximum", "suspended", "volumes")
                if each.readings.get(name) is not None
            }
            if state:
                self.changes.note(each.target, "settings", state, now)


async def observe_region(
    aws: Aws, targets: Sequence[Target]
) -> tuple[Region, dict[str, OperatorError]]:
    """What AWS says of these targets, and which kinds of them it does not show, and why."""
    account = await aws.account()
    ids = {kind: [each.host for each in targets if each.kind == kind] for kind in KINDS}
    failures: dict[str, OperatorError] = {}
    found: dict[str, dict[str, Json]] = {kind: {} for kind in KINDS}
    statuses: dict[str, Json] = {}
    members: dict[str, str] = {}
    ephemeral: dict[str, bool] = {}
    try:
        found[INSTANCE] = await _instances(aws, ids[INSTANCE])
        known = list(found[INSTANCE])
        for part in _parts(known):
            answer = await aws.read(
                "ec2", "describe_instance_status", InstanceIds=part, IncludeAllInstances=True
            )
            statuses |= {str(each["InstanceId"]): each for each in answer["InstanceStatuses"]}
            answer = await aws.read(
                "autoscaling", "describe_auto_scaling_instances", InstanceIds=part
            )
            members |= {
                str(each["InstanceId"]): str(each["AutoScalingGroupName"])
                for each in answer["AutoScalingInstances"]
            }
        ephemeral = await _ephemeral(aws, found[INSTANCE].values())
    except OperatorError as problem:
        failures[INSTANCE] = problem
    try:
        found[VOLUME] = await _find(
            aws, "ec2", "describe_volumes", "volume-id", ids[VOLUME], "Volumes", "VolumeId"
        )
    except OperatorError as problem:
        failures[VOLUME] = problem
    try:
        for part in _parts(ids[GROUP]):
            answer = await aws.read(
                "autoscaling", "describe_auto_scaling_groups", AutoScalingGroupNames=part
            )
            groups: Sequence[Json] = answer["AutoScalingGroups"]
            found[GROUP] |= {str(each["AutoScalingGroupName"]): each for each in groups}
    except OperatorError as problem:
        failures[GROUP] = problem
    region = Region(
        account, found[INSTANCE], statuses, found[VOLUME], found[GROUP], ephemeral, members
    )
    return region, failures


async def _instances(aws: Aws, ids: Sequence[str]) -> dict[str, Json]:
    """By a filter: an id that is gone is then no error for the others."""
    found: dict[str, Json] = {}
    for part in _parts(ids):
        answer = await aws.read(
            "ec2", "describe_instances", Filters=[{"Name": "instance-id", "Values": part}]
        )
        for reservation in answer["Reservations"]:
            found |= {str(each["InstanceId"]): each for each in reservation["Instances"]}
    return found


async def _find(
    aws: Aws, service: str, operation: str, name: str, ids: Sequence[str], list_: str, key: str
) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for part in _parts(ids):
        answer = await aws.read(service, operation, Filters=[{"Name": name, "Values": part}])
        found |= {str(each[key]): each for each in answer[list_]}
    return found


async def _ephemeral(aws: Aws, instances: Iterable[Json]) -> dict[str, bool]:
    types = sorted({str(each["InstanceType"]) for each in instances if each.get("InstanceType")})
    found: dict[str, bool] = {}
    for part in _parts(types):
        answer = await aws.read("ec2", "describe_instance_types", InstanceTypes=part)
        kinds: Sequence[Mapping[str, Any]] = answer["InstanceTypes"]
        found |= {
            str(each["InstanceType"]): bool(each.get("InstanceStorageSupported")) for each in kinds
        }
    return found


def _parts(ids: Sequence[str]) -> Iterable[list[str]]:
    unique = list(dict.fromkeys(ids))
    return (unique[n : n + PER_CALL_MAX] for n in range(0, len(unique), PER_CALL_MAX))
