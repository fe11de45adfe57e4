"""One registry: tools by name, completed from the ticket, validated, and where a call stands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from operator_protocols.domain.action import SHELL, Action, Outcome, Result
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import Prepared, ToolState
from operator_protocols.errors import ConfigError, NotFoundError
from operator_protocols.ports import Preparing, Tool
from operator_sre.clock import SystemClock
from operator_sre.executor.tools.general import LogMessage, Wait
from operator_sre.executor.tools.host import CheckPort, KillProcess
from operator_sre.executor.tools.parameters import Invalid, Validated
from operator_sre.executor.tools.registry import (
    Known,
    Registry,
    infer_arguments,
    known_from,
    state_of,
)
from tests.contract.samples import ticket as ticket_of
from tests.contract.samples import violation

CHECK = CheckPort(list)
REGISTRY = Registry((CHECK, LogMessage(), Wait(SystemClock())))


def test_a_name_is_there_once() -> None:
    assert [spec.name for spec in REGISTRY.specs] == ["check_port", "log_message", "wait"]
    assert (len(REGISTRY), tuple(REGISTRY)) == (3, REGISTRY.tools)
    assert all(isinstance(tool, Tool) for tool in REGISTRY)
    with pytest.raises(ConfigError, match="two tools with the name 'log_message'"):
        Registry((LogMessage(), LogMessage()))
    shell = LogMessage()
    shell.spec = replace(shell.spec, name=SHELL)
    with pytest.raises(ConfigError, match="'shell'"):
        Registry((shell,))


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    assert REGISTRY.get("wait") is not None
    assert REGISTRY.get("wiat") is None
    with pytest.raises(NotFoundError, match=r"no tool 'wiat'. Did you mean 'wait'\?"):
        REGISTRY.get_tool("wiat")
    with pytest.raises(NotFoundError, match="operator tools list"):
        REGISTRY.get_tool("zzz")


def test_every_call_is_validated_once_more_before_it_runs() -> None:
    right = REGISTRY.check_call(Action("wait", {"seconds": 3}))
    assert isinstance(right, Validated)
    for action in (Action("wait", {"seconds": True, "x": 1}), Action("nobody", {})):
        wrong = REGISTRY.check_call(action)
        assert isinstance(wrong, Result)
        assert wrong.exit_code == 2


TARGETS = [Target("node-1", "node"), Target("store", "redis")]


def test_what_a_ticket_says_is_known() -> None:
    one = replace(ticket_of(), target="node-1", violations=(violation(target="node-1"),))
    known = known_from(one, TARGETS)
    assert known.values == {"target": ("node-1",), "node": ("node-1",)}
    told = replace(violation(target="store"), detail="too much: key=user:7, region=eu-1, x=y")
    known = known_from(replace(one, violations=(*one.violations, told)), TARGETS)
    assert known.values["target"] == ("node-1", "store")
    assert [known.only(what) for what in ("target", "node", "key", "region", "x")] == [
        *("", "node-1", "user:7", "eu-1", ""),
    ]
    assert known_from(one, TARGETS, target="store").only("target") == "store"
    assert known_from().values == {"target": (), "node": ()}


def test_what_is_missing_and_determined_is_filled_in_and_marked() -> None:
    known = Known({"target": ("node-1",)})
    found = infer_arguments(CHECK.spec, Action("check_port", {}), known)
    assert (found.arguments, found.inferred) == ({"target": "node-1"}, ("target",))
    given = Action("check_port", {"target": "store"})
    assert infer_arguments(CHECK.spec, given, known) == given
    several = Known({"target": ("a", "b")})
    assert infer_arguments(CHECK.spec, Action("check_port", {}), several).inferred == ()
    about = Action("check_port", {}, target="a")
    assert infer_arguments(CHECK.spec, about, several).arguments == {"target": "a"}


@pytest.mark.asyncio
async def test_a_call_is_completed_before_it_is_judged() -> None:
    found = await REGISTRY.propose(Action("wait", {"seconds": 300}))
    assert isinstance(found, Action)
    assert found.timeout_s > 300  # a command line's limit would end it too early
    assert found.expected
    kept = await REGISTRY.propose(Action("wait", {"seconds": 3}, timeout_s=7.0, expected="x"))
    assert isinstance(kept, Action)
    assert (kept.timeout_s, kept.expected) == (7.0, "x")
    wrong = await REGISTRY.propose(Action("wait", {"seconds": 0}))
    assert isinstance(wrong, Invalid)
    shell = Action.shell("uptime")
    assert await REGISTRY.propose(shell) is shell
    unknown = Action("nobody", {"a": 1})
    assert await REGISTRY.propose(unknown) is unknown


@pytest.mark.asyncio
async def test_a_tool_may_look_before_it_is_judged() -> None:
    assert isinstance(KillProcess(), Preparing)
    assert not isinstance(LogMessage(), Preparing)
    assert await KillProcess().prepare({"pid": True}) == Prepared()


RAN = Result(Outcome.RAN, exit_code=0)


@pytest.mark.parametrize(
    ("kinds", "result", "state"),
    [
        ((), None, ToolState.PROPOSED),
        ((Kind.VERDICT,), None, ToolState.VALIDATED),
        ((Kind.VERDICT, Kind.APPROVAL_REQUESTED), None, ToolState.VALIDATED),
        ((Kind.VERDICT, Kind.PERMIT_MINTED), None, ToolState.VALIDATED),
        ((Kind.PERMIT_MINTED, Kind.TOOL_CALL), None, ToolState.EXECUTING),
        ((Kind.TOOL_CALL, Kind.TOOL_RESULT), RAN, ToolState.COMPLETED),
        ((Kind.TOOL_RESULT,), replace(RAN, exit_code=1), ToolState.FAILED),
        ((Kind.TOOL_RESULT,), Result(Outcome.TIMED_OUT, exit_code=124), ToolState.FAILED),
        ((Kind.TOOL_RESULT,), Result(Outcome.UNKNOWN), ToolState.FAILED),
        ((Kind.TOOL_RESULT,), None, ToolState.FAILED),
        ((Kind.TOOL_RESULT,), Result(Outcome.CANCELLED), ToolState.CANCELLED),
        ((Kind.VERDICT, Kind.REFUSED), Result(Outcome.REFUSED), ToolState.CANCELLED),
    ],
)
def test_where_a_call_stands_follows_from_the_ledger(
    kinds: tuple[Kind, ...], result: Result | None, state: ToolState
) -> None:
    assert state_of(kinds, result) is state
