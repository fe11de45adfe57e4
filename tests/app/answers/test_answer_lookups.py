"""What an answer costs depends on its own run: nothing of it walks through a whole table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.run import Answer, Escalate
from operator_sre.app.answers import (
    explain_denial,
    explain_failure,
    next_action,
    run_timeline,
    summarize_run,
)
from operator_sre.contract.messages import (
    ExplainFailureRequest,
    ExplainPolicyDenialRequest,
    GetRunTimelineRequest,
    NextActionRequest,
    SummarizeRunRequest,
)
from operator_sre.store.database import Reader
from tests.app.answering import FOUND, shopkeeper

FIRST_FEW = re.compile(r"FROM \w+ (?:WHERE seq > \? )?ORDER BY seq(?: DESC)? LIMIT \?$")
TURN = Answer("try", (FOUND, Action.shell("rm -rf /"), Escalate("It is forbidden.")))


@pytest.mark.asyncio
async def test_no_question_about_a_run_walks_through_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Reader, str, Sequence[object]]] = []
    read = Reader.rows

    def rows(self: Reader, sql: str, values: Sequence[object] = ()) -> list[Sequence[object]]:
        asked.append((self, sql, values))
        return list(read(self, sql, values))

    with shopkeeper(tmp_path, monkeypatch, TURN) as keeper:
        app, run = keeper.app, await keeper.carry()
        monkeypatch.setattr(Reader, "rows", rows)
        summarize_run(app, SummarizeRunRequest(run_id=run))
        explain_failure(app, ExplainFailureRequest(run_id=run))
        explain_denial(app, ExplainPolicyDenialRequest(run_id=run))
        run_timeline(app, GetRunTimelineRequest(run_id=run))
        next_action(app, NextActionRequest(run_id=run))
        next_action(app, NextActionRequest())
        assert len(asked) > 10
        for reader, sql, values in asked:
            plan = [str(row[3]) for row in read(reader, f"EXPLAIN QUERY PLAN {sql}", values)]
            # Along an index and soon left, or by what is equal to something.
            if not FIRST_FEW.search(sql):
                reads = [one for one in plan if one.startswith(("SCAN", "SEARCH"))]
                walks = [one for one in reads if "=?" not in one]
                assert not walks, f"{sql}: {walks}"
