"""A whole run leaves every command in the history, those that were refused as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.command import CommandFilter
from operator_protocols.domain.run import Answer, Finish
from operator_sre.ledger.history.statistics import parse_query
from tests.contract.workshop import DIAGNOSIS, MEND, Script, Workshop

pytestmark = pytest.mark.asyncio

LOOK = Action.shell("uptime", target="node-1", reasoning="How long has it been up?")
WIPE = Action.shell("mkfs /dev/sda", target="node-1", reasoning="A fresh start.")


async def test_every_command_of_a_run_is_in_its_history(tmp_path: Path) -> None:
    turns = (
        Answer("look first", (LOOK,)),
        Answer("too early", (MEND,)),
        Answer("now", (DIAGNOSIS, WIPE, MEND)),
        Answer("done", (Finish("mended"),)),
    )
    workshop = Workshop(tmp_path, Script(*turns))
    try:
        await workshop.carry()
        store = workshop.store
        history = store.commands.newest(CommandFilter(run="run-1"), limit=99)[::-1]
        told = [(one.command, one.outcome, one.level, one.risk) for one in history]
        assert told[:4] == [
            ("uptime", "ran", "safe", "low"),
            ("mend(target=node-1)", "refused", "review", "medium"),
            ("mkfs /dev/sda", "refused", "blocked", "critical"),
            ("mend(target=node-1)", "ran", "review", "medium"),
        ]
        assert {(one.agent, one.agent_type) for one in history} == {("worker", "script")}
        assert history[1].context == MEND.reasoning
        assert "diagnosis first" in history[1].head
        await store.search.catch_up(entries_max=1000)
        (found,) = store.search.commands(parse_query("mkfs fresh"), CommandFilter(), limit=9)
        assert found == history[2]
    finally:
        workshop.close()
