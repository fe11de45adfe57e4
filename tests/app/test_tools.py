"""Typed tools as use cases: what is offered, what is proposed, and what becomes of a call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.permit import Approval
from operator_protocols.domain.tool import ToolSource, ToolState
from operator_protocols.errors import NotFoundError, UsageError
from operator_sre.app.commands import Wanted, controls_for, execute_command, foresee_command
from operator_sre.app.tools import (
    Call,
    Offered,
    call_document,
    list_tools,
    propose_call,
    show_tool,
)
from operator_sre.app.wiring.controls import build_registry
from operator_sre.controls import MACHINE
from operator_sre.gate import Way
from operator_sre.gate.policy import Decision
from tests.app.home import SUBJECTS, opened
from tests.app.reference import DOCUMENT, FIRST, reference

pytestmark = pytest.mark.asyncio
CLUSTER = """
[subjects.kv]
plugin = "tikv"
targets = [{ name = "pd-1", kind = "pd", host = "127.0.0.1", port = 1 }]
"""


def _nobody(asked: Approval) -> None:
    raise AssertionError(f"nobody is to be asked: {asked}")


def _policy(folder: Path, text: str) -> None:
    (folder / "home").mkdir()
    (folder / "home" / "policy.yaml").write_text(f"version: 1\n{text}\n")


async def test_every_subject_has_the_tools_of_the_machine(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        offered = list_tools(app)
        of_shop = [one.spec for one in list_tools(app, "shop")]
        everywhere = [one.spec for one in offered]
        assert of_shop[: len(everywhere)] == everywhere
        assert {one.source for one in of_shop[len(everywhere) :]} == {ToolSource.SUBJECT}
        registry = build_registry(app, app.programs, list, ())
        assert registry.specs == tuple(one.spec for one in offered)
        assert app.controls(MACHINE).registry.specs == registry.specs
        with pytest.raises(NotFoundError):
            list_tools(app, "nobody")


async def test_the_docs_tell_every_tool_as_it_is(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        told = reference(list_tools(app))
    again = "Write it anew with: python -m tests.app.reference"
    assert DOCUMENT.read_text().partition(FIRST)[2] == told, again


async def test_what_the_policy_answers_is_told(tmp_path: Path) -> None:
    _policy(tmp_path, "tools: {read_file: require, wait: deny}\napproval: {medium: auto}")
    with opened(tmp_path) as app:
        answers = {one.spec.name: one.approval for one in list_tools(app)}
        assert answers["read_file"] is Decision.REQUIRE
        assert answers["wait"] is Decision.DENY
        assert answers["host_service_start"] is Decision.AUTO
        assert answers["kill_process"] is Decision.REQUIRE
        one = show_tool(app, "wait")
        assert isinstance(one, Offered)
        assert (one.document["name"], one.document["approval"]) == ("wait", "deny")
        with pytest.raises(NotFoundError, match="Did you mean 'wait'"):
            show_tool(app, "wiat")


async def test_everything_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        call = Call("read_file", ("pth=/a", "offset=x", "odd", "path=/a"), {"path": "/b"})
        with pytest.raises(UsageError) as raised:
            await propose_call(app, call)
        for part in ("'odd' is not", "'path' is given twice", "mean 'path'", "'offset' must be"):
            assert part in str(raised.value)
        assert raised.value.next_step == "See: operator tools show read_file"
        assert app.store.entries.newest(limit=1) == []


async def test_a_target_that_was_named_is_inferred(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        wanted = await propose_call(app, Call("check_port", target="node-1", reason="why"))
        assert (wanted.action.arguments, wanted.action.inferred) == (
            *({"target": "node-1"}, ("target",)),
        )
        assert (wanted.action.target, wanted.action.reasoning) == ("node-1", "why")
        assert controls_for(app, wanted)[0] == "shop"
        with pytest.raises(NotFoundError, match="no target 'nobody'"):
            await propose_call(app, Call("check_port", target="nobody"))


async def test_a_call_goes_the_way_of_every_action(tmp_path: Path) -> None:
    _policy(tmp_path, f"paths: {{write: [{tmp_path}/*]}}\napproval: {{high: auto}}")
    file = tmp_path / "a.conf"
    with opened(tmp_path, mode="execute") as app:
        call = Call("write_file", document={"path": str(file), "text": "token=abc\n"})
        wanted = await propose_call(app, call)
        outlook = foresee_command(app, wanted)
        assert (outlook.way, outlook.verdict.writes) == (Way.RUNS, (str(file),))
        assert "+token=" in outlook.verdict.action.expected
        executed = await execute_command(app, wanted, on_request=_nobody)
        assert (executed.ran, executed.exit_code, file.read_text()) == (True, 0, "token=abc\n")
        kinds = [entry.kind for entry in app.store.entries.after(0, limit=99)]
        assert kinds == [Kind.VERDICT, Kind.PERMIT_MINTED, Kind.TOOL_CALL, Kind.TOOL_RESULT]
        told = call_document(app, executed)
        assert (told["tool"], told["state"]) == ("write_file", ToolState.COMPLETED)
        assert told["inferred"] == ("expect_sha256",)
        assert executed.result.undo is not None
        undo = Call("restore_file", document=dict(executed.result.undo.arguments))
        again = await execute_command(app, await propose_call(app, undo), on_request=_nobody)
        assert (again.exit_code, file.exists()) == (0, False)


async def test_the_operators_own_home_is_never_written(tmp_path: Path) -> None:
    _policy(tmp_path, f"paths: {{write: [{tmp_path}/**]}}\napproval: {{high: auto}}")
    policy = tmp_path / "home" / "policy.yaml"
    before = policy.read_text()
    with opened(tmp_path, mode="execute") as app:
        call = Call("write_file", document={"path": str(policy), "text": "version: 1\n"})
        wanted = await propose_call(app, call)
        assert wanted.action.expected == show_tool(app, "write_file").spec.expected
        executed = await execute_command(app, wanted, on_request=_nobody)
        assert (executed.exit_code, policy.read_text()) == (1, before)
        assert call_document(app, executed)["state"] is ToolState.FAILED


async def test_what_may_never_run_is_refused_and_on_record(tmp_path: Path) -> None:
    with opened(tmp_path, mode="execute") as app:
        for call in (
            Call("host_service_start", ("service=sshd",)),
            Call("write_file", (f"path={tmp_path}/a", "text=x")),
        ):
            executed = await execute_command(app, await propose_call(app, call), on_request=_nobody)
            assert (executed.ran, executed.exit_code) == (False, 3)
            assert call_document(app, executed)["state"] is ToolState.CANCELLED
        assert [one.kind for one in app.store.entries.newest(limit=1)] == [Kind.REFUSED]
        assert not (tmp_path / "a").exists()


async def test_nobody_calls_a_tool_with_what_makes_no_sense(tmp_path: Path) -> None:
    """A mind that goes past the proposal finds the same validation behind the permit."""
    with opened(tmp_path, mode="execute") as app:
        wanted = await propose_call(app, Call("wait", ("seconds=1",)))
        forged = Action("wait", {"seconds": "soon", "x": 1})
        executed = await execute_command(
            app, type(wanted)(call=forged, subject=wanted.subject), on_request=_nobody
        )
        assert (executed.exit_code, executed.result.category) == (2, "syntax")


async def test_a_tool_is_not_begun_on_what_nobody_here_knows(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        known = [one.name for one in app.controls("shop").subject.targets()]
        for tool in ("check_port", "drain_node"):
            call = Call(tool, document={"target": "billing-1"}, subject="shop")
            wanted = await propose_call(app, call)
            done = await execute_command(app, wanted, on_request=_nobody)
            assert not done.ran
            assert "'shop' has no target 'billing-1'" in done.explanation
            assert known[0] in done.explanation
        kinds = [entry.kind for entry in app.store.entries.after(0, limit=100)]
        assert Kind.TOOL_CALL not in kinds
        assert kinds.count(Kind.REFUSED) == 2


async def test_a_target_among_the_arguments_is_the_target_of_the_call(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        named = await propose_call(app, Call("check_port", subject="shop", target="node-1"))
        for subject in ("shop", ""):
            pairs = ("target=node-1",)
            assert await propose_call(app, Call("check_port", pairs, subject=subject)) == replace(
                named, subject=subject
            )
        twice = Call("check_port", ("target=node-2",), subject="shop", target="node-1")
        with pytest.raises(UsageError, match="'target' is given twice"):
            await propose_call(app, twice)
        with pytest.raises(NotFoundError, match="no target 'nosuch'"):
            await propose_call(app, Call("check_port", ("target=nosuch",), subject="shop"))


async def test_a_tool_may_act_on_the_cluster_as_a_whole(tmp_path: Path) -> None:
    with opened(tmp_path, CLUSTER) as app:
        call = Action("transfer_leader", {}, target="cluster")
        wanted = Wanted(call=call, subject="kv", target="cluster")
        assert controls_for(app, wanted)[0] == "kv"
        with pytest.raises(NotFoundError, match="no target 'nosuch'") as refused:
            controls_for(app, replace(wanted, target="nosuch"))
        assert "cluster" in refused.value.next_step
        with pytest.raises(NotFoundError, match="no target 'cluster'"):
            # A command needs a machine to run on.
            controls_for(app, Wanted("uptime", subject="kv", target="cluster"))
