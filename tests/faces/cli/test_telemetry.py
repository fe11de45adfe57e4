"""`operator telemetry`: where traces go, and what is in them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from operator_protocols.domain.action import Action
from operator_protocols.domain.run import Answer, Finish
from operator_protocols.domain.trace import trace_id
from tests.contract.workshop import DIAGNOSIS, MEND, Script, Workshop
from tests.e2e.home import Home
from tests.telemetry.collector import collecting

TURNS = (
    Answer("look", (Action.shell("true"),)),
    Answer("act", (DIAGNOSIS, MEND)),
    Answer("over", (Finish("repaired"),)),
)


def _asked(home: Home, *words: str, **environ: str) -> dict[str, Any]:
    done = home.run(*words, "--json", **environ)
    assert done.code == 0, done
    return done.json


def test_a_run_is_shown_as_spans_that_lead_back_to_the_ledger(home: Home) -> None:
    shop = Workshop(home.path, Script(*TURNS))
    asyncio.run(shop.carry())
    shop.close()
    spans = _asked(home, "telemetry", "show", "run-1")["spans"]
    names = [one["name"] for one in spans]
    assert names.count("chat script") == 3
    assert names[-1] == "invoke_agent operator"
    assert {one["trace"] for one in spans} == {trace_id("run-1")}
    shown = home.run("telemetry", "show", "run-1").out
    for one in spans:
        assert one["id"] in shown
        entry = _asked(home, "audit", "show", "--span", one["id"])["entry"]
        assert (entry["seq"], entry["run"]) == (one["seq"], "run-1")
    assert home.run("audit", "show", "--span", "0" * 16).code == 2
    assert home.run("audit", "show", "run-1", "--span", spans[0]["id"]).code == 2
    assert home.run("telemetry", "show", "run-9").code == 2


def test_whether_a_collector_is_there_is_asked_and_told(home: Home) -> None:
    assert home.run("telemetry", "status").out.startswith("Traces are off: otlp_endpoint")
    refused = home.run("telemetry", "test")
    assert (refused.code, "otlp_endpoint" in refused.err) == (2, True)
    with collecting() as inbox:
        environ = {"OPERATOR_OTLP_ENDPOINT": inbox.url}
        trace = _asked(home, "telemetry", "test", **environ)["trace"]
        assert [one.trace for one in inbox.spans] == [trace]
        assert "The collector accepted a span" in home.run("telemetry", "test", **environ).out
        status = _asked(home, "telemetry", "status", **environ)["telemetry"]
        assert (status["endpoint"], status["sent"], status["problem"]) == (inbox.url, 0, "")
        inbox.status = 400
        failed = home.run("telemetry", "test", "--json", **environ)
    assert failed.code == 1
    error = json.loads(failed.out)["error"]
    assert (error["category"], error["next_action"]) == ("dashboard_unavailable", "rerun")
