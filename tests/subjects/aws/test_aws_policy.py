"""The IAM policy of the documentation is enough for everything, and for nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from operator_protocols.ports import Job
from operator_sre.subjects.aws.client import Aws, AwsError, options_from
from operator_sre.subjects.aws.subject import AwsRegion
from operator_sre.subjects.aws.tools import aws_tools
from tests.subjects.aws.cloud import Cloud

pytestmark = pytest.mark.asyncio

PAGE = (Path(__file__).parents[3] / "docs" / "subjects" / "aws.md").read_text()
Policy = dict[str, Any]


def _policy() -> Policy:
    found = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    policy: Policy = json.loads(found[1])
    return policy


@pytest.fixture
def limited(cloud: Cloud) -> Iterator[Cloud]:
    """A cloud that checks rights, in which Operator has those of the policy."""
    user = cloud.folder.name
    cloud.ask("iam", "create_user", UserName=user)
    yield cloud
    httpx2.post(f"{cloud.url}/moto-api/reset-auth", content="inf")


def _allow(cloud: Cloud, policy: Policy) -> None:
    """Give Operator these rights; moto knows actions only, not the things that they are for."""
    rows = [{name: each[name] for name in ("Effect", "Action")} for each in policy["Statement"]]
    policy = {**policy, "Statement": [{**row, "Resource": "*"} for row in rows]}
    user = cloud.folder.name
    cloud.ask(
        "iam",
        "put_user_policy",
        UserName=user,
        PolicyName="operator",
        PolicyDocument=json.dumps(policy),
    )
    made = cloud.ask("iam", "create_access_key", UserName=user)["AccessKey"]
    cloud.keys = (made["AccessKeyId"], made["SecretAccessKey"])
    httpx2.post(f"{cloud.url}/moto-api/reset-auth", content="0").raise_for_status()


async def _outcomes(cloud: Cloud) -> dict[str, str]:
    """Every tool in an order in which all of them can work: its name, and what went wrong."""
    found = {}
    order = ["stop_instance", "start_instance", "reboot_instance"]
    names = {"instance": "web-1", "volume": "data", "group": "web"}
    tools = {tool.spec.name: tool for tool in aws_tools(cloud.settings())}
    for name in [*(name for name in tools if name not in order), *order]:
        tool = tools[name]
        arguments = {"target": names[tool.spec.on[0]]}
        if name == "scale_group":
            arguments |= {"desired": 3}  # type: ignore[dict-item]
        prepared = await tool.prepare(arguments)  # type: ignore[attr-defined]
        found[name] = (await tool.call({**prepared.arguments, **arguments}, Job())).stderr
    return found


async def test_with_the_documented_policy_everything_works(limited: Cloud) -> None:
    limited.start()
    limited.volume()
    limited.group(2)
    _allow(limited, _policy())
    seen = await AwsRegion(limited.settings()).observe()
    assert [each.problem for each in seen.seen] == ["", "", ""]
    assert set((await _outcomes(limited)).values()) == {""}
    settings = limited.settings()
    aws = Aws(settings, options_from(settings.options))
    for operation in ("terminate_instances", "delete_volume", "delete_snapshot", "run_instances"):
        with pytest.raises(AwsError) as refused:
            await aws.change("ec2", operation, **_needed(operation, limited))
        assert "do not allow ec2:" in str(refused.value)


def _needed(operation: str, cloud: Cloud) -> dict[str, Any]:
    match operation:
        case "terminate_instances":
            return {"InstanceIds": [cloud.targets[0].host]}
        case "delete_volume":
            return {"VolumeId": cloud.targets[1].host}
        case "delete_snapshot":
            return {"SnapshotId": "snap-0123456789abcdef0"}
    return {"ImageId": "ami-12c6146b", "MinCount": 1, "MaxCount": 1}


async def test_without_a_right_of_it_something_names_what_is_missing(limited: Cloud) -> None:
    limited.start()
    limited.volume()
    limited.group(2)
    policy = _policy()
    # Only what watching needs.
    _allow(limited, {**policy, "Statement": policy["Statement"][:1]})
    changed = {
        "reboot_instance": "ec2:RebootInstances",
        "stop_instance": "ec2:StopInstances",
        "scale_group": "autoscaling:SetDesiredCapacity",
        "snapshot_volume": "ec2:CreateSnapshot",
    }
    outcomes = await _outcomes(limited)
    for name, right in changed.items():
        assert f"The credentials do not allow {right}. Allow it" in outcomes[name]
    assert {outcomes[name] for name in outcomes if name.startswith(("describe", "check"))} == {""}


async def test_each_right_of_the_policy_is_needed(limited: Cloud) -> None:
    asked = set()
    make = Aws._connect

    def connect(aws: Aws, service: str, *, changes: bool) -> Any:
        client = make(aws, service, changes=changes)
        client.meta.events.register(
            "before-call", lambda model, **_: asked.add(f"{service}:{model.name}")
        )
        return client

    limited.start()
    limited.volume()
    limited.group(2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Aws, "_connect", connect)
        await AwsRegion(limited.settings()).observe()
        await _outcomes(limited)
    allowed = {right for each in _policy()["Statement"] for right in each["Action"]}
    assert asked == allowed
