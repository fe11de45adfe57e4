"""What can be done to AWS: bound to what was approved, bounded, undone, and sent once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from operator_protocols.domain.action import Action, Argument, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.permit import Approval
from operator_protocols.domain.target import Target
from operator_protocols.domain.verdict import Level, Mode, Risk
from operator_protocols.ports import Job
from operator_sre.app.approvals import approve
from operator_sre.app.commands import execute_command
from operator_sre.app.tools import Call, propose_call
from operator_sre.gate import Policy, judge
from operator_sre.subjects.aws.client import Aws
from operator_sre.subjects.aws.tools import KNOWLEDGE, AwsTool, aws_tools
from tests.app.home import opened
from tests.subjects.aws.cloud import ACCOUNT, KEY, REGION, SECRET, Cloud

pytestmark = pytest.mark.asyncio

READS = ("describe_instance", "check_status", "describe_volume", "describe_group")
CHANGES = ("reboot_instance", "start_instance", "stop_instance", "scale_group", "snapshot_volume")


def _tool(cloud: Cloud, name: str, **options: object) -> AwsTool:
    for tool in aws_tools(cloud.settings(**options)):
        if tool.spec.name == name:
            assert isinstance(tool, AwsTool)
            return tool
    raise AssertionError(name)


async def _run(cloud: Cloud, name: str, target: str, **more: Any) -> Result:
    """Propose it and call it, as the executor does after an approval."""
    options = more.pop("options", {})
    tool = _tool(cloud, name, **options)
    arguments: Mapping[str, Argument] = {"target": target, **more}
    prepared = await tool.prepare(arguments)
    assert not prepared.flaws, prepared.flaws
    return await tool.call({**prepared.arguments, **arguments}, Job())


async def test_an_instance_is_rebooted_after_approval(cloud: Cloud) -> None:
    id = cloud.start()
    toml = cloud.toml
    with opened(cloud.folder, toml, mode="approve") as app:
        wanted = await propose_call(app, Call("reboot_instance", subject="cloud", target="web-1"))
        bound = {"id": id, "account": ACCOUNT, "region": REGION, "state": "running"}
        assert wanted.action.arguments == {"target": "web-1", **bound}
        asked: asyncio.Queue[Approval] = asyncio.Queue()
        running = asyncio.create_task(execute_command(app, wanted, on_request=asked.put_nowait))
        pending = await asked.get()
        assert Kind.TOOL_CALL not in [each.kind for each in app.store.entries.after(0, limit=100)]
        assert pending.risk is Risk.HIGH
        await approve(app, pending.id, reason="it hangs")
        executed = await running
        assert executed.result.ok, executed.result.stderr
        assert executed.result.stdout == f"AWS reboots {id}."
        told = [str(each.payload) for each in app.store.entries.after(0, limit=100)]
        assert not [text for text in told if KEY in text or SECRET in text]


@pytest.mark.parametrize("name", [*READS, *CHANGES])
async def test_reads_are_safe_and_changes_need_an_approval(cloud: Cloud, name: str) -> None:
    spec = KNOWLEDGE.tools[name]
    assert spec.changes is (name in CHANGES)
    verdict = judge(Action(name, {"target": "x"}), Policy(mode=Mode.EXECUTE, tools=(spec,)))
    runs = Policy(mode=Mode.EXECUTE, tools=(spec,)).runs_by_itself(verdict)
    assert (verdict.level is Level.SAFE, runs) == (name in READS, name in READS)


async def test_what_is_described_is_what_is_there(cloud: Cloud) -> None:
    id, volume, group = cloud.start(), cloud.volume(), cloud.group(2)
    seen = (await _run(cloud, "describe_instance", "web-1")).data
    assert (seen["id"], seen["state"], seen["in_group"]) == (id, "running", False)
    assert seen["keeps_data"] is True
    assert (await _run(cloud, "check_status", "web-1")).data["instance_status"] == "ok"
    assert (await _run(cloud, "describe_volume", "data")).data["id"] == volume
    told = await _run(cloud, "describe_group", "web")
    assert (told.data["id"], told.data["desired"], told.data["in_service"]) == (group, 2, 2)


async def test_a_stop_is_undone_by_a_start(cloud: Cloud) -> None:
    id = cloud.start()
    stopped = await _run(cloud, "stop_instance", "web-1")
    assert stopped.ok, stopped.stderr
    assert cloud.state(id) == "stopped"
    assert stopped.undo is not None
    started = await _run(cloud, stopped.undo.tool, stopped.undo.target)
    assert started.ok, started.stderr
    assert cloud.state(id) == "running"
    assert started.undo == replace(stopped.undo, tool="stop_instance")


async def test_a_group_is_scaled_and_scaled_back(cloud: Cloud) -> None:
    name = cloud.group(2)
    grown = await _run(cloud, "scale_group", "web", desired=4)
    assert grown.ok, grown.stderr
    assert (cloud.desired(name), grown.data["before"]) == (4, 2)
    assert grown.undo is not None
    assert grown.undo.arguments == {"target": "web", "desired": 2}
    back = await _run(cloud, "scale_group", "web", desired=2)
    assert (back.ok, cloud.desired(name)) == (True, 2)
    same = await _run(cloud, "scale_group", "web", desired=2)
    assert (same.ok, same.data["changed"]) == (True, False)


@pytest.mark.parametrize(
    ("desired", "why"),
    [(7, "1 to 6"), (0, "1 to 6"), (6, "one change may be 2")],
)
async def test_a_group_is_changed_within_its_limits_and_in_small_steps(
    cloud: Cloud, desired: int, why: str
) -> None:
    name = cloud.group(2, low=0)
    refused = await _run(cloud, "scale_group", "web", desired=desired)
    assert not refused.ok
    assert why in refused.stderr
    assert cloud.desired(name) == 2


async def test_a_snapshot_is_of_the_volume_that_was_approved(cloud: Cloud) -> None:
    volume = cloud.volume()
    taken = await _run(cloud, "snapshot_volume", "data")
    assert taken.ok, taken.stderr
    found = cloud.ask("ec2", "describe_snapshots", SnapshotIds=[taken.data["snapshot"]])
    assert found["Snapshots"][0]["VolumeId"] == volume
    assert taken.undo is None, "nothing of a person's is deleted"


@pytest.mark.parametrize("name", ["id", "account", "region", "state"])
async def test_nothing_is_done_to_what_was_not_approved(cloud: Cloud, name: str) -> None:
    id = cloud.start()
    tool = _tool(cloud, "stop_instance")
    bound = (await tool.prepare({"target": "web-1"})).arguments
    for value in ("other", None):
        result = await tool.call({"target": "web-1", **bound, name: value}, Job())
        assert not result.ok
        assert result.category is FailureCategory.PERMISSION
        assert cloud.state(id) == "running"


async def test_a_target_that_was_exchanged_since_is_not_touched(cloud: Cloud) -> None:
    first = cloud.start()
    tool = _tool(cloud, "reboot_instance")
    bound = (await tool.prepare({"target": "web-1"})).arguments
    cloud.targets.clear()
    second = cloud.start()
    result = await tool.call({"target": "web-1", **bound}, Job())
    assert f"has another id: {second}, and {first} was approved" in result.stderr


async def test_a_state_that_changed_since_voids_the_approval(cloud: Cloud) -> None:
    id = cloud.start()
    tool = _tool(cloud, "reboot_instance")
    bound = (await tool.prepare({"target": "web-1"})).arguments
    cloud.ask("ec2", "stop_instances", InstanceIds=[id])
    result = await tool.call({"target": "web-1", **bound}, Job())
    assert "its state is stopped, and was running" in result.stderr
    grow = _tool(cloud, "scale_group")
    name = cloud.group(2)
    bound = (await grow.prepare({"target": "web"})).arguments
    cloud.ask("autoscaling", "set_desired_capacity", AutoScalingGroupName=name, DesiredCapacity=3)
    result = await grow.call({"target": "web", "desired": 4, **bound}, Job())
    assert "its desired is 3, and was 2" in result.stderr
    assert cloud.desired(name) == 3


async def test_what_a_group_owns_is_not_stopped(cloud: Cloud) -> None:
    name = cloud.group(2)
    found = cloud.ask("autoscaling", "describe_auto_scaling_groups", AutoScalingGroupNames=[name])
    id = found["AutoScalingGroups"][0]["Instances"][0]["InstanceId"]
    cloud.targets.append(Target("web-1", "instance", id))
    result = await _run(cloud, "stop_instance", "web-1")
    assert f"The group {name} owns {id}" in result.stderr
    assert cloud.state(id) == "running"


async def test_what_would_lose_data_is_not_stopped(cloud: Cloud) -> None:
    id = cloud.start(kind="i3.large")  # it has disks of its own
    result = await _run(cloud, "stop_instance", "web-1")
    assert "could lose its data" in result.stderr
    assert cloud.state(id) == "running"


async def test_what_is_gone_is_a_flaw_of_the_proposal(cloud: Cloud) -> None:
    cloud.targets.append(Target("web-1", "instance", "i-0123456789abcdef0"))
    prepared = await _tool(cloud, "stop_instance").prepare({"target": "web-1"})
    assert prepared.flaws == (f"i-0123456789abcdef0 does not exist in {ACCOUNT} {REGION}.",)
    cloud.volume("web-2")
    prepared = await _tool(cloud, "stop_instance").prepare({"target": "web-2"})
    assert "There is no instance 'web-2'" in prepared.flaws[0]


async def test_another_account_is_never_touched(cloud: Cloud) -> None:
    id = cloud.start()
    result = await _tool(cloud, "reboot_instance", account="000000000001").call(
        {"target": "web-1", "id": id, "account": ACCOUNT, "region": REGION, "state": "running"},
        Job(),
    )
    assert f"The credentials are for the account {ACCOUNT}, not for 000000000001." in result.stderr


async def test_a_change_without_an_answer_is_unknown_and_is_sent_once(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.start()
    sent: list[str] = []
    make = Aws._connect

    def connect(aws: Aws, service: str, *, changes: bool) -> Any:
        client = make(aws, service, changes=changes)
        if changes:
            # It is asked for real, and its answer is lost.
            client.meta.events.register(
                "after-call.ec2.RebootInstances", lambda **_: _lose(sent), unique_id="lost"
            )
        return client

    monkeypatch.setattr(Aws, "_connect", connect)
    result = await _run(cloud, "reboot_instance", "web-1")
    assert (result.outcome, result.exit_code) == (Outcome.UNKNOWN, None)
    assert "Check it before a retry: it may have been done." in result.stderr
    assert sent == ["reboot"]


def _lose(sent: list[str]) -> None:
    sent.append("reboot")
    raise ReadTimeoutError(endpoint_url="http://example.invalid")


async def test_no_secret_is_in_any_message_or_log_line(
    cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    cloud.start()
    results = [
        await _run(cloud, "describe_instance", "web-1"),
        await _run(cloud, "reboot_instance", "web-1"),
        await _tool(cloud, "check_status", endpoint="http://127.0.0.1:1").call(
            {"target": "web-1"}, Job()
        ),
    ]
    assert [result.ok for result in results] == [True, True, False]
    text = caplog.text + "".join(f"{each.stdout}{each.stderr}{each.data}" for each in results)
    assert SECRET not in text
    assert KEY not in text
