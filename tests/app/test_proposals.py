"""What agents from elsewhere propose: the gate judges it, and a person says yes before it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Outcome
from operator_protocols.domain.permit import ApprovalState
from operator_protocols.domain.workflow import WorkflowState
from operator_protocols.errors import AuthorityError
from operator_sre.app.hub import Hub, foreign_agent, propose_action, proposed_action
from operator_sre.app.wiring import App
from tests.app.home import opened

pytestmark = pytest.mark.asyncio
BY = foreign_agent("Claude Code")


@asynccontextmanager
async def _served(app: App) -> AsyncIterator[Hub]:
    hub = Hub(app)
    work = asyncio.ensure_future(hub.serve())
    try:
        yield hub
    finally:
        work.cancel()
        await asyncio.wait({work})


async def test_a_change_waits_for_a_person_and_a_look_does_not(tmp_path: Path) -> None:
    file = tmp_path / "made"
    with opened(tmp_path, mode="approve") as app:
        async with _served(app) as hub:
            looked = await propose_action(app, BY, Action.shell("echo hi"))
            changed = await propose_action(app, BY, Action.shell(f"touch {file}"))
            done = await proposed_action(app, BY, looked, wait_s=30)
            assert (done.action.state, done.approval) == (WorkflowState.COMPLETED, "")
            assert done.action.result is not None
            assert done.action.result.stdout == "hi\n"
            waits = await proposed_action(app, BY, changed, wait_s=30)
            (asked,) = app.store.approvals.find(states=[ApprovalState.PENDING])
            assert waits.approval == asked.id
            assert (asked.requester, file.exists()) == (BY, False)
            await hub.approve_action(changed, by="ada")
            for _ in range(10):
                done = await proposed_action(app, BY, changed, wait_s=30)
                if done.action.state.over:
                    break
        assert done.action.state is WorkflowState.COMPLETED
        assert file.exists()


async def test_nobody_approves_what_an_agent_of_theirs_has_asked_for(tmp_path: Path) -> None:
    with opened(tmp_path, mode="approve", self_approval="0") as app:
        async with _served(app) as hub:
            action = replace(Action.shell(f"touch {tmp_path / 'made'}"), reasoning="because")
            made = await propose_action(app, BY, action)
            assert (await proposed_action(app, BY, made, wait_s=30)).approval
            with pytest.raises(AuthorityError, match="cannot approve it"):
                await hub.approve_action(made, by=BY.id)
            assert (await hub.approve_action(made, by="somebody-else")).state == "approved"
            done = await proposed_action(app, BY, made, wait_s=30)
            while not done.action.state.over:
                done = await proposed_action(app, BY, made, wait_s=30)
        assert done.action.state is WorkflowState.COMPLETED


async def test_what_is_blocked_never_runs(tmp_path: Path) -> None:
    with opened(tmp_path, mode="execute") as app:
        async with _served(app):
            made = await propose_action(app, BY, Action.shell("rm -rf /"))
            done = await proposed_action(app, BY, made, wait_s=30)
        assert done.action.state is WorkflowState.FAILED
        assert done.action.result is not None
        assert done.action.result.outcome is Outcome.REFUSED
