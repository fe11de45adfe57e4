"""`operator eval work` and `eval run --engine dbos`: where they meet, and every mistake told."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.postgres import Server, database_in, shared_server
from tests.e2e.home import Home
from tests.e2e.waiting import eventually

CAMPAIGN = """
name = "many"
scenarios = ["etcd:node_kill", "etcd:nothing"]
variants = ["reasoner", "none"]
interval_s = 1.0
stable_s = 1.0
hold_s = 1.5
control_s = 2.0
detect_s_max = 20.0
end_s_max = 20.0
[seeds]
reasoner = 1
none = 1
"""


@pytest.fixture
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store in PostgreSQL."""
    with database_in("postgresql", tmp_path, request.config) as url:
        yield url


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    """The server of this process."""
    return shared_server(request.config)


def test_what_makes_no_sense_is_one_sentence(home: Home) -> None:
    one = ("run", "--subject", "etcd", "--fault", "node_kill", "--engine")
    for words, sentence in (
        (("work",), "The engine dbos needs a store in PostgreSQL"),
        (("work", "--name", "a:b"), "A worker cannot be called 'a:b'."),
        (("work", "--parallel", "0"), "--parallel"),
        ((*one, "dbos"), "The engine dbos needs a store in PostgreSQL"),
        ((*one, "celery"), "There is no engine 'celery'. Choose one of: local, dbos."),
    ):
        done = home.run("eval", *words)
        assert done.code == 2, (words, done)
        assert sentence in done.err
        assert "Traceback" not in done.err
    assert not (home.path / "eval.db").exists()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_campaign_outlives_who_leads_it_and_one_of_those_who_do_it(
    home: Home, where: str, server: Server, tmp_path: Path
) -> None:
    file = tmp_path / "many.toml"
    file.write_text(CAMPAIGN)
    machines = {}
    for name in ("crane", "heron"):  # what tells two machines apart is where they keep things
        (tmp_path / name).mkdir()
        machines[name] = {"OPERATOR_STORE": where, "TMPDIR": str(tmp_path / name)}
    words = ("eval", "run", "campaign", str(file), "--engine", "dbos", "--json")
    leading = home.start(*words, OPERATOR_STORE=where)
    work = ("eval", "work", "--json", "--name")
    crane = home.start(*work, "crane", **machines["crane"])
    eventually(lambda: '"taken"' in crane.said, "a trial that was begun", within_s=90.0)
    twice = home.run("eval", "work", **machines["crane"])
    assert twice.code == 1
    assert "on this machine already" in twice.err
    os.kill(crane.pid, signal.SIGKILL)
    os.kill(leading.pid, signal.SIGKILL)
    heron = home.start(*work, "heron", "--parallel", "2", **machines["heron"])
    eventually(lambda: '"done"' in heron.said, "a trial that nobody waits for", within_s=120.0)
    leading = home.start(*words, OPERATOR_STORE=where)
    eventually(lambda: not leading.runs, "the end of the campaign", within_s=240.0)
    assert leading.end() == 0, leading.said
    *_, last = [json.loads(line) for line in leading.said.splitlines()]
    assert (last["outcome"]["of"], last["outcome"]["failed"]) == (4, 0)
    shown = json.loads(home.run("eval", "show", "many", "--json").out)
    facts = {one["facts"]["key"]: one["facts"] for one in shown["trials"]}
    assert {one["state"] for one in facts.values()} == {"done"}, facts
    assert (home.path / facts["etcd:node_kill/reasoner/0"]["ledger"]).is_file()
    # Crane did none of them; heron did three once, and the fourth when crane was not heard of.
    assert heron.said.count('"done"') == 4
    assert heron.end() == 128 + signal.SIGTERM, heron.said
    assert "Traceback" not in heron.said
    name = where.rpartition("/")[2]
    for question in (
        "SELECT count(*) FROM operator_engine.workflow_status",
        "SELECT count(*) FROM operator_engine.trial_takers WHERE name = 'heron'",
    ):
        assert server.ask(question, name=name) == [(0,)], question
    left = [one.name for one in (tmp_path / "heron").iterdir() if one.suffix != ".lock"]
    assert left == []
