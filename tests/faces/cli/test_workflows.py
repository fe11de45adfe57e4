"""`operator workflows` and `operator exec --at`: in order, later, after a crash, and cancelled."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Kind
from operator_protocols.domain.workflow import WorkflowState, run_of
from tests.e2e.home import Home
from tests.e2e.waiting import eventually
from tests.faces.cli.sentences import Bad, one_sentence

AUTO = "version: 1\napproval: {low: auto, medium: auto}\n"
LOOKS = """
name: look around
steps:
  - id: first
    command: echo one
  - id: second
    command: echo ${steps.first.stdout} two
"""


def _file(home: Home, text: str, name: str = "w.yaml") -> str:
    path = home.cwd / name
    path.write_text(text)
    return str(path)


def _policy(home: Home) -> None:
    home.path.mkdir(exist_ok=True)
    (home.path / "policy.yaml").write_text(AUTO)


def _state(home: Home, workflow: str) -> WorkflowState | None:
    found = home.store.workflows.get(workflow)
    return found.state if found else None


def test_a_workflow_runs_and_tells_how_it_goes(home: Home) -> None:
    done = home.run("workflows", "run", _file(home, LOOKS))
    assert done.code == 0, done
    for sentence in ("step first: in_progress", "step second: completed", "exit 0 in"):
        assert sentence in done.out
    assert done.out.splitlines()[-1].endswith("is completed.")
    name = done.out.split("\n", 1)[0]
    shown = home.run("workflows", "show", name)
    assert "look around, completed" in shown.out
    assert "echo 'one' two" in shown.out
    document = home.run("workflows", "show", name, "--json").json
    assert [step["state"] for step in document["workflow"]["steps"]] == ["completed"] * 2
    assert document["entries"][0]["kind"] == "workflow_requested"
    listed = home.run("workflows", "list", "--json").json["workflows"]
    assert [one["id"] for one in listed] == [name]
    assert "look around" in home.run("workflows", "list", "--state", "completed").out
    kept = home.run("history", "list", "--json").json["commands"]
    assert {one["workflow"] for one in kept} == {name}


def test_a_failure_has_its_exit_code_and_a_refusal_another(home: Home) -> None:
    bad = "name: x\nsteps: [{id: a, command: 'exit 3', retry: false}]\n"
    done = home.run("workflows", "run", _file(home, bad), "--json")
    assert done.code == 1
    record = done.json["workflow"]
    assert (record["state"], record["reason"]) == ("failed", "step a: exit 3")
    change = "name: x\nsteps: [{id: a, command: mkdir zz}]\n"
    refused = home.run("workflows", "run", _file(home, change))
    assert refused.code == 4
    assert "observe" in refused.out


def test_a_dry_run_tells_and_makes_nothing(home: Home) -> None:
    text = "name: x\nsteps: [{id: a, command: mkdir zz}, {id: b, command: ls, depends_on: [a]}]\n"
    path = _file(home, text)
    done = home.run("workflows", "run", path, "--dry-run")
    assert [line.split()[0] for line in done.out.splitlines()] == ["STEP", "a", "b"]
    steps = home.run("workflows", "run", path, "--dry-run", "--json").json["steps"]
    assert [(one["level"], one["way"]) for one in steps] == [
        *(("review", "proposes"), ("safe", "runs")),
    ]
    assert not home.path.exists()


def test_what_is_scheduled_is_listed_run_when_due_and_cancelled(home: Home) -> None:
    later = home.run("exec", "echo later", "--at", "+10m", "--json").json
    assert later["steps"][0]["level"] == "safe"
    name = later["workflow"]["id"]
    told = home.run("workflows", "run", _file(home, LOOKS), "--at", "+0s")
    assert "is due at" in told.out
    listed = home.run("workflows", "list", "--scheduled", "--json").json["workflows"]
    assert [one["id"] for one in listed][-1] == name
    due = home.run("workflows", "run", "--due", "--json")
    assert due.code == 0
    assert [one["workflow"]["name"] for one in due.json["workflows"]] == ["look around"]
    assert home.run("workflows", "run", "--due").out.startswith("No workflows are due")
    cancelled = home.run("workflows", "cancel", name, "--reason", "not needed")
    assert cancelled.code == 0
    assert "is cancelled" in cancelled.out
    assert home.run("workflows", "list", "--scheduled").out == "No workflows.\n"
    assert _calls(home, name) == 0


def _calls(home: Home, workflow: str) -> int:
    return sum(one.run.startswith(f"{workflow}/") for one in home.entries(Kind.TOOL_CALL))


def test_an_agent_runs_what_is_due(home: Home) -> None:
    name = home.run("exec", "echo by an agent", "--at", "+0s", "--json").json["workflow"]["id"]
    agent = home.fork("agent", "start")
    eventually(lambda: _state(home, name) is WorkflowState.COMPLETED, "the agent ran it")
    assert _calls(home, name) == 1
    assert agent.end() == 128 + signal.SIGTERM


def test_a_killed_workflow_goes_on_and_runs_nothing_twice(home: Home) -> None:
    _policy(home)
    counted, go = home.cwd / "counted", home.cwd / "go"
    text = f"""
name: count
steps:
  - id: one
    command: echo one >> {counted}
  - id: two
    command: "echo two >> {counted}; while ! test -e {go}; do sleep 0.05; done; echo said"
    depends_on: [one]
  - id: three
    command: echo three ${{steps.two.stdout}} >> {counted}
"""
    running = home.fork("workflows", "run", _file(home, text), "--mode", "execute")
    eventually(lambda: counted.exists() and "two" in counted.read_text(), "the second step runs")
    (record,) = home.store.workflows.find()
    os.kill(running.pid, signal.SIGKILL)
    eventually(lambda: not running.runs, "it is dead")
    resumed = home.fork("workflows", "run", "--resume", "--mode", "execute")
    eventually(lambda: (home.store.workflows.get(record.id) or record).epoch == 2, "it is claimed")
    go.touch()
    eventually(lambda: not resumed.runs, "it has ended")
    ended = home.store.workflows.get(record.id)
    assert ended is not None
    # Whoever outlives the operator knows how the second step ended; else it is unknown.
    if ended.state is WorkflowState.COMPLETED:
        assert counted.read_text() == "one\ntwo\nthree said\n"
    else:
        assert ended.reason.startswith("unknown: step two")
        assert counted.read_text() == "one\ntwo\n"
    assert len(home.entries(Kind.TOOL_CALL)) == len({e.run for e in home.entries(Kind.TOOL_CALL)})
    assert home.run("audit", "verify").code == 0


def test_another_process_cancels_it_and_takes_back_what_is_done(home: Home) -> None:
    _policy(home)
    made, undone = home.cwd / "made", home.cwd / "undone"
    text = f"""
name: long
steps:
  - id: make
    argv: [mkdir, {made}]
    undo: {{argv: [mkdir, {undone}]}}
  - id: wait
    command: sleep 300
    depends_on: [make]
  - id: never
    command: echo never
    depends_on: [wait]
"""
    running = home.fork("workflows", "run", _file(home, text), "--mode", "execute")
    eventually(lambda: len(home.entries(Kind.TOOL_CALL)) == 2, "it waits")
    (record,) = home.store.workflows.find()
    done = home.run("workflows", "cancel", record.id, "--undo", "--json", "--mode", "execute")
    assert done.code == 0
    told = done.json["workflow"]
    assert (told["state"], told["undoes"]) == ("cancelled", True)
    assert told["reason"].endswith("rolled back: make")
    eventually(lambda: not running.runs, "it has ended")
    assert running.end() == 1
    assert (made.is_dir(), undone.is_dir()) == (True, True)
    ran = [one.run for one in home.entries(Kind.TOOL_CALL)]
    assert run_of(record.id, "never", 1) not in ran


def test_ctrl_c_cancels_it(home: Home) -> None:
    text = "name: x\nsteps: [{id: a, command: sleep 300}, {id: b, command: ls, depends_on: [a]}]\n"
    running = home.fork("workflows", "run", _file(home, text))
    eventually(lambda: home.entries(Kind.TOOL_CALL), "it runs")
    assert running.end(signal.SIGINT) == 128 + signal.SIGINT
    (record,) = home.store.workflows.find()
    assert record.state is WorkflowState.CANCELLED


def test_agents_ask_and_hear_through_the_hub(home: Home) -> None:
    agent = home.fork("agent", "start", "--mode", "approve")
    asked = home.run("hub", "request", "echo hi", "--agent", "planner", "--type", "planner")
    name = asked.out.strip()
    eventually(lambda: _state(home, name) is WorkflowState.COMPLETED, "the agent ran it")
    done = home.run("hub", "result", name, "--agent", "planner", "--json")
    assert (done.code, done.json["result"]["result"]["stdout"]) == (0, "hi\n")
    assert "hi" in home.run("hub", "result", name, "--agent", "planner").out
    other = home.run("hub", "result", name, "--agent", "coder")
    one_sentence(other, Bad("", 2, "of this agent"))
    ask = ("hub", "request", "mkdir zz", "--agent", "coder", "--json")
    change = home.run(*ask).json["action"]
    eventually(lambda: home.store.approvals.find(), "it waits for a person")
    listed = home.run("hub", "pending", "--json").json["actions"]
    assert [(one["action"], one["agent"]["name"]) for one in listed] == [(change, "coder")]
    assert "mkdir zz" in home.run("hub", "pending", "--agent", "coder").out
    assert home.run("hub", "pending", "--agent", "planner").out == "No unfinished actions.\n"
    answered = home.ask("hub", "approve", change, "--reject", "--reason", "not now")
    assert answered["approval"]["state"] == "rejected"
    eventually(lambda: _state(home, change) is WorkflowState.FAILED, "it was denied")
    listening = home.fork("hub", "listen", "--agent", "coder", "--json")
    eventually(lambda: "SYSTEM_ACTION_RESULT" in listening.said, "it is told")
    told = [json.loads(line)["message"] for line in listening.said.splitlines()]
    assert {one["agent"] for one in told} == {"coder"}
    kinds = [one["kind"].removeprefix("SYSTEM_ACTION_") for one in told]
    assert kinds == ["REQUEST", "APPROVAL_NEEDED", "DENIED", "RESULT"]
    assert listening.end() == agent.end() == 128 + signal.SIGTERM


BAD = (
    Bad("workflows run", 2, r"Name a definition"),
    Bad("workflows run nosuch.yaml", 2, r"'nosuch.yaml' cannot be read: No such file"),
    Bad("workflows run --due --at +1m", 2, r"need a definition"),
    Bad("workflows show nosuch", 2, r"no workflow 'nosuch'\. .*operator workflows list"),
    Bad("workflows cancel nosuch", 2, r"no workflow 'nosuch'\. .*operator workflows list"),
    Bad(
        "workflows list --state happy",
        2,
        r"no workflow state 'happy'\. States: pending",
    ),
    Bad("exec ls --at soon", 2, r"'soon' is not a valid time\. Use for example"),
    Bad("exec ls --at 2020-01-01T00:00Z", 2, r"has passed"),
)


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.line)
def test_bad_input_is_told_in_one_sentence(home: Home, bad: Bad) -> None:
    one_sentence(home.run(*bad.line.split()), bad)


def test_every_mistake_of_a_definition_is_in_the_sentence(home: Home) -> None:
    path = _file(home, "name: x\nsteps:\n  - id: a\n    comand: ls\n  - id: a\n    command: ls\n")
    says = r"3 mistakes: line 3, .*; line 4, .*; line 5, .*docs/workflows"
    one_sentence(home.run("workflows", "run", path), Bad("", 2, says))
    assert Path(path).exists()
