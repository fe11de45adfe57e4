"""What is observed of AWS, what breaks an invariant, and what becomes of a refusal."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Finding, Observation, Seen, Trouble
from operator_protocols.domain.target import Target
from operator_protocols.errors import ConfigError
from operator_sre.subjects.aws.client import Options, options_from
from operator_sre.subjects.aws.invariants import invariants_of
from operator_sre.subjects.aws.state import Region, read_group, read_instance
from operator_sre.subjects.aws.subject import AwsRegion
from tests.subjects.aws.cloud import ACCOUNT, REGION, Cloud

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def _findings(subject: AwsRegion, seen: Observation) -> dict[tuple[str, str], Finding]:
    found = [finding for each in subject.invariants for finding in each.check(seen)]
    return {(each.invariant, each.target): each for each in found}


async def _broken(cloud: Cloud) -> dict[tuple[str, str], str]:
    subject = AwsRegion(cloud.settings())
    findings = _findings(subject, await subject.observe())
    return {key: each.detail for key, each in findings.items() if each.health is Health.BROKEN}


@pytest.mark.asyncio
async def test_all_is_well_and_every_kind_is_checked(cloud: Cloud) -> None:
    cloud.start()
    cloud.volume()
    cloud.group(2)
    subject = AwsRegion(cloud.settings(account=ACCOUNT))
    seen = await subject.observe()
    findings = _findings(subject, seen)
    assert {each.health for each in findings.values()} == {Health.HEALTHY}
    assert {name for name, _ in findings} == {each.name for each in subject.invariants}
    assert seen.of("web-1").readings["region"] == REGION


@pytest.mark.asyncio
async def test_a_stopped_instance_a_missing_one_and_a_short_group_are_found(cloud: Cloud) -> None:
    stopped, gone, group = cloud.start(), cloud.start("web-2"), cloud.group(2)
    cloud.ask("ec2", "stop_instances", InstanceIds=[stopped])
    cloud.ask("ec2", "terminate_instances", InstanceIds=[gone])
    cloud.targets.append(Target("web-3", "instance", "i-0123456789abcdef0"))
    found = cloud.ask("autoscaling", "describe_auto_scaling_groups", AutoScalingGroupNames=[group])
    cloud.ask(
        "autoscaling",
        "set_instance_health",
        InstanceId=found["AutoScalingGroups"][0]["Instances"][0]["InstanceId"],
        HealthStatus="Unhealthy",
    )
    cloud.ask(
        "autoscaling", "suspend_processes", AutoScalingGroupName=group, ScalingProcesses=["Launch"]
    )
    broken = await _broken(cloud)
    assert broken == {
        ("instance_running", "web-1"): "its state is stopped (Client.UserInitiatedShutdown)",
        ("instance_running", "web-2"): "its state is terminated (Client.UserInitiatedShutdown)",
        ("target_exists", "web-3"): f"i-0123456789abcdef0 does not exist in {ACCOUNT} {REGION}",
        ("group_at_capacity", "web"): "1 of 2 instances are in service; suspended: Launch",
    }


@pytest.mark.parametrize(
    ("system", "instance", "health"),
    [
        ("ok", "ok", Health.HEALTHY),
        ("ok", "initializing", Health.HEALTHY),
        ("ok", "impaired", Health.BROKEN),
        ("impaired", "ok", Health.BROKEN),
        ("insufficient-data", "ok", Health.UNKNOWN),
        ("", "", Health.UNKNOWN),
    ],
)
def test_status_checks_are_not_guessed(system: str, instance: str, health: Health) -> None:
    region = Region(
        ACCOUNT,
        {"i-1": {"State": {"Name": "running"}}},
        {"i-1": {"SystemStatus": {"Status": system}, "InstanceStatus": {"Status": instance}}},
    )
    readings = read_instance(region, "i-1")
    assert readings["keeps_data"] is None, "what is not known of its disks is not assumed"
    seen = Observation("cloud", NOON, (Seen("web-1", readings),))
    checks = {each.name: list(each.check(seen)) for each in invariants_of(Options())}
    assert [each.health for each in checks["status_checks_pass"]] == [health]


@pytest.mark.asyncio
async def test_refused_credentials_make_health_unknown_and_name_the_right(cloud: Cloud) -> None:
    cloud.start()
    subject = AwsRegion(cloud.settings(account="000000000001"))
    seen = (await subject.observe()).of("web-1")
    assert "not for 000000000001" in seen.problem
    assert seen.readings == {}
    subject = AwsRegion(cloud.settings(endpoint="http://127.0.0.1:1"))
    seen = (await subject.observe()).of("web-1")
    assert seen.problem == "AWS did not answer GetCallerIdentity: EndpointConnectionError."
    assert seen.trouble is Trouble.NOTHING
    findings = _findings(subject, await subject.observe())
    assert {each.health for each in findings.values() if each.target == "web-1"} <= {Health.UNKNOWN}


@pytest.mark.asyncio
async def test_credentials_are_read_again_after_a_refusal(cloud: Cloud) -> None:
    cloud.start()
    settings = cloud.settings()
    file = Path(str(settings.options["credentials_file"]))
    file.write_text("[default]\naws_access_key_id = only\n")
    subject = AwsRegion(settings)
    assert "has no [default] with" in (await subject.observe()).of("web-1").problem
    cloud.write_credentials()
    assert (await subject.observe()).of("web-1").problem == ""


def test_a_group_in_which_nothing_is_wanted_is_at_capacity() -> None:
    region = Region(ACCOUNT, groups={"g": {"DesiredCapacity": 0, "Instances": []}})
    assert read_group(region, "g")["in_service"] == 0


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "no 'region'"),
        ({"region": "x", "account": "12"}, "12 digits"),
        ({"region": "x", "profile": "a", "credentials_file": "b"}, "use one of them"),
        ({"region": "x", "endpoint": "http://10.0.0.9:5000"}, "https://"),
        ({"region": "x", "endpoint": "https://me:hunter2@host"}, "without a password"),
        ({"region": "x", "aws_secret_access_key": "s"}, "is not an option"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        options_from(given)
    assert "hunter2" not in str(caught.value)
