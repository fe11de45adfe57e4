"""`operator tools`: what there is, and a call that goes the way of every other action."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Kind
from operator_protocols.domain.permit import ApprovalState
from tests.app.home import SUBJECTS
from tests.e2e.home import Home
from tests.e2e.waiting import eventually
from tests.faces.cli.sentences import Bad, one_sentence


def _policy(home: Home, text: str) -> None:
    home.path.mkdir(exist_ok=True)
    (home.path / "policy.yaml").write_text(f"version: 1\n{text}\n")


def test_what_there_is_is_listed(home: Home) -> None:
    told = home.run("tools", "list")
    assert (told.code, told.out.splitlines()[0].split()[0]) == (0, "TOOL")
    assert any(line.startswith("kill_process ") for line in told.out.splitlines())
    found = {one["name"]: one for one in home.run("tools", "list", "--json").json["tools"]}
    assert (found["write_file"]["risk"], found["write_file"]["approval"]) == ("high", "require")
    assert found["write_file"]["undo"] == "restore_file"
    assert not home.path.exists()  # who only looks makes no home


def test_one_is_shown_in_full(home: Home) -> None:
    told = home.run("tools", "show", "kill_process")
    for part in ("risk      high, approval: require", "--arg pid=INTEGER", "one of TERM, KILL"):
        assert part in told.out
    document = home.run("tools", "show", "wait", "--json").json["tool"]
    (seconds,) = document["parameters"]
    assert (seconds["minimum"], seconds["maximum"]) == (1, 300)
    bad = Bad("tools show", 2, r"no tool 'wiat'\. Did you mean 'wait'\?")
    one_sentence(home.run("tools", "show", "wiat"), bad)


def test_what_only_looks_runs_at_once_and_is_on_record(home: Home) -> None:
    (home.cwd / "a.log").write_text("all is well\n")
    done = home.run("tools", "run", "read_file", "--arg", f"path={home.cwd}/a.log")
    assert (done.code, done.out) == (0, "all is well\n")
    kinds = [entry.kind for entry in home.entries(*Kind)]
    assert kinds == [Kind.VERDICT, Kind.PERMIT_MINTED, Kind.TOOL_CALL, Kind.TOOL_RESULT]
    assert home.run("audit", "verify").code == 0


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["kill_process", "--arg", "pid=x", "--arg", "sgnal=TERM"], 2, "'signal'.*'pid' must be"),
        (["wait", "--arg", "seconds=301"], 2, "'seconds' must be between 1 and 300"),
        (["wait", "--json-args", "no-such.json"], 2, "cannot be read"),
        (["nobody"], 2, "There is no tool 'nobody'"),
        (["host_service_stop", "--arg", "service=dbus"], 3, "'services: deny' in the policy"),
        (["write_file", "--arg", "path=/srv/x", "--arg", "text=x"], 3, "'paths: write'"),
        (["host_service_stop", "--arg", "service=nginx"], 4, "Proposed only.*--mode approve"),
        (["read_file", "--arg", "path=/etc/shadow"], 4, "may hold secrets"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    home: Home, words: list[str], code: int, says: str
) -> None:
    one_sentence(home.run("tools", "run", *words), Bad("tools run", code, says))


def test_arguments_come_from_a_file_too(home: Home) -> None:
    file = home.cwd / "arguments.json"
    file.write_text(json.dumps({"text": "all is well"}))
    done = home.run("tools", "run", "log_message", "--json-args", str(file), "--json")
    told = done.json
    assert (done.code, told["stdout"], told["state"]) == (0, "all is well", "completed")
    arguments = {"text": "all is well", "level": "info"}
    assert (told["arguments"], told["data"]) == (arguments, {"characters": 11, "level": "info"})
    for text, says in (("[1]", "not a JSON object"), ("{", "are not JSON")):
        file.write_text(text)
        bad = Bad("tools run", 2, says)
        one_sentence(home.run("tools", "run", "log_message", "--json-args", str(file)), bad)


def test_people_see_the_difference_and_a_yes_writes_it(home: Home) -> None:
    file = home.cwd / "a.conf"
    file.write_text("listen 80\n")
    _policy(home, f"paths: {{write: [{home.cwd}/*.conf]}}")
    line = ["tools", "run", "write_file", "--arg", f"path={file}", "--arg", "text=listen 81\n"]
    dry = home.run(*line, "--dry-run")
    assert (dry.code, file.read_text()) == (0, "listen 80\n")
    assert "          -listen 80\n          +listen 81\n" in dry.out
    told = home.run(*line, "--dry-run", "--json").json
    assert (told["ran"], told["way"], told["writes"]) == (False, "proposes", [str(file)])
    running = home.start(*line, "--mode", "approve", "--wait", "60")
    eventually(lambda: "Ctrl-C" in running.said, "it says what it waits for")
    (asked,) = home.store.approvals.find(states=[ApprovalState.PENDING])
    assert "          +listen 81\n" in home.run("approvals", "show", asked.id).out
    assert home.run("approvals", "approve", asked.id).code == 0
    eventually(lambda: not running.runs, "it has ended")
    assert (running.end(), file.read_text()) == (0, "listen 81\n")


def test_a_part_of_a_subject_is_named_once(home: Home) -> None:
    Path(home.cwd / "operator.toml").write_text(SUBJECTS)
    done = home.run("tools", "run", "check_port", "--target", "node-1", "--json")
    told = done.json
    assert (done.code, told["inferred"], told["data"]) == (0, ["target"], {"port": "refused"})
