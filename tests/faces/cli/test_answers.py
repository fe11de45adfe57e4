"""Every verb on something real: what it prints for people, and what it prints for programs."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from operator_sre.release import describe_version
from tests.e2e.census import is_alive, processes_of
from tests.e2e.home import Home, Json, run_operator
from tests.e2e.waiting import eventually
from tests.e2e.warm import Warm
from tests.faces.cli.conftest import SECRET
from tests.faces.cli.sentences import Bad, one_sentence


def test_lab_status_names_all_that_a_person_needs_to_break_it(lived: Home) -> None:
    rig = lived.rig()
    assert set(rig) >= {"store", "node-1", "node-2", "node-3"}
    for target in rig.values():
        assert target["state"] == "running"
        assert is_alive(target["pid"])
        assert 0 < target["port"] < 65536
        assert target["host"] == "127.0.0.1"
        assert Path(target["log"]).is_file()
        assert Path(target["data_dir"]).is_dir()
    text = lived.run("lab", "status", "ratelimiter").out
    assert text.startswith("TARGET")
    assert str(rig["node-2"]["pid"]) in text
    assert f"operator up --subject ratelimiter --mode execute --home {lived.path}" in text


def test_the_key_reaches_no_process_of_a_rig(lived: Home) -> None:
    found = processes_of(lived.path)
    assert len(found) >= 5, "the supervisor, the store and three nodes"
    for pid in found:
        assert SECRET.encode() not in Path(f"/proc/{pid}/environ").read_bytes()


def test_lab_breaks_and_heals(lived: Home) -> None:
    hurt = lived.ask("lab", "break", "ratelimiter", "node_pause", "--seed", "7")
    assert (hurt["subject"], hurt["fault"]) == ("ratelimiter", "node_pause")
    assert lived.rig()[hurt["target"]]["state"] == "paused"
    healed = lived.run("lab", "heal", "ratelimiter", "node_pause")
    assert (healed.code, healed.out) == (0, f"node_pause: {hurt['target']} is healed.\n")
    assert lived.rig()[hurt["target"]]["state"] == "running"


def test_a_rig_that_is_up_is_not_started_again(lived: Home) -> None:
    before = lived.rig()
    again = Bad("lab up ratelimiter", 1, r"is already up .*operator lab down")
    one_sentence(lived.run(*again.line.split()), again)
    assert lived.rig() == before


def test_a_demo_does_not_end_a_rig_that_was_there_before(lived: Home) -> None:
    before = lived.rig()
    there = Bad("demo", 1, r"is already up .*operator lab down")
    done = lived.run(*there.line.split())
    assert (done.code, "starting a real" in done.out) == (1, True)
    assert re.search(there.says, done.err)
    assert lived.rig() == before


def test_a_target_that_a_fault_cannot_hurt_is_named_with_those_it_can(lived: Home) -> None:
    for target in ("nosuch", "store"):
        line = f"lab break ratelimiter node_kill --target {target}"
        says = rf"'node_kill' cannot be injected into '{target}'\. .*node-1, node-2, node-3"
        one_sentence(lived.run(*line.split()), Bad(line, 2, says))
    none = Bad("lab heal ratelimiter store_kill", 2, r"'store_kill' is not active in this rig")
    one_sentence(lived.run(*none.line.split()), none)


def test_tickets_are_listed_and_shown(lived: Home) -> None:
    (ticket,) = lived.ask("tickets", "list")["tickets"]
    assert (ticket["id"], ticket["state"], ticket["target"]) == (1, "resolved", "node-1")
    assert lived.ask("tickets", "resolve", "1")["ticket"] == ticket
    assert lived.ask("tickets", "list", "--state", "open")["tickets"] == []
    assert lived.ask("tickets", "list", "--subject", "another")["tickets"] == []
    listed = lived.run("tickets", "list", "--state", "resolved", "--subject", "ratelimiter").out
    assert "node-1: the process is not running." in listed
    assert "node-1: node_down:" not in listed
    shown = lived.run("tickets", "show", "1").out
    assert shown.startswith("Ticket 1: node-1: the process is not running. (confidence ")
    assert "\nnode-1: node_down:" in shown
    headings = ("ACTION ", "APPROVAL ", "RESULT ", "EVIDENCE ", "FINDINGS ", "TIMELINE")
    places = [shown.index(f"\n{heading}") for heading in headings]
    assert places == sorted(places)
    for step in ("file", "think", "decide", "act", "prove", "close"):
        assert f"  {step:7}" in shown
    assert "RESOLVED with proof" in shown


def test_approvals_are_listed_with_their_answers(lived: Home) -> None:
    assert lived.ask("approvals", "list")["approvals"] == []
    assert lived.run("approvals", "list").out == "No pending approvals.\n"
    (answered,) = lived.ask("approvals", "list", "--all")["approvals"]
    assert (answered["state"], answered["reason"]) == ("approved", "as agreed")
    assert answered["decided_by"]
    assert answered["id"] in lived.run("approvals", "list", "--all").out


def test_audit_tells_every_run_and_entry(lived: Home) -> None:
    (run,) = lived.ask("audit", "list")["runs"]
    assert (run["ticket"], run["state"], run["model"]) == (1, "completed", "reasoner")
    assert run["id"] in lived.run("audit", "list").out
    shown = lived.ask("audit", "show", run["id"])
    assert shown["run"] == run
    assert {entry["run"] for entry in shown["entries"]} == {run["id"]}
    assert "diagnosis" in lived.run("audit", "show", run["id"]).out
    entry: Json = lived.ask("audit", "show", "--seq", "1")["entry"]
    assert (entry["seq"], entry["kind"]) == (1, "ticket_opened")


def test_audit_verify_says_whole_or_names_the_damage(lived: Home, home: Home) -> None:
    whole = lived.run("audit", "verify")
    assert whole.code == 0
    assert whole.out.startswith("The ledger is intact:")
    home.path.mkdir()
    for file in lived.path.glob("*.*"):
        shutil.copy(file, home.path)
    with closing(sqlite3.connect(home.path / "operator.db")) as database, database:
        body = database.execute("SELECT body FROM entries WHERE seq = 5").fetchone()[0]
        forged = bytes(body).replace(b"e", b"E", 1)
        database.execute("UPDATE entries SET body = ? WHERE seq = 5", (forged,))
    damaged = home.run("audit", "verify")
    assert damaged.code == 1
    assert "5" in damaged.out
    as_json = home.run("audit", "verify", "--json")
    assert as_json.code == 1
    assert as_json.json["whole"] is False


def test_audit_tail_shows_the_newest_entries(lived: Home) -> None:
    newest = lived.run("audit", "tail", "-n", "3", "--json")
    shown = [json.loads(line)["entry"] for line in newest.out.splitlines()]
    assert [entry["seq"] for entry in shown] == [shown[0]["seq"] + step for step in range(3)]
    assert shown[-1] == lived.ask("audit", "show", "--seq", str(shown[-1]["seq"]))["entry"]
    assert len(lived.run("audit", "tail", "-n", "3").out.splitlines()) == 3


def test_audit_export_verifies_elsewhere(lived: Home, warm: Warm, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    written = lived.run("audit", "export", str(bundle), "--json").json
    assert (written["file"], written["format"]) == (str(bundle), "bundle")
    elsewhere = ("audit", "verify", "--bundle", str(bundle), "--home", str(tmp_path / "h"))
    there = warm.run(*elsewhere, "--json", cwd=tmp_path, environ=os.environ)
    assert there.json["whole"] is True
    lines = lived.run("audit", "export", "--format", "jsonl", "--kind", "diagnosis").out
    assert [json.loads(line)["kind"] for line in lines.splitlines()] == ["diagnosis"]


def test_audit_anchor_names_a_head_to_which_the_ledger_is_held(lived: Home, tmp_path: Path) -> None:
    anchors = tmp_path / "anchors"
    assert lived.run("audit", "anchor", "--file", str(anchors), "--json").json["anchor"]
    assert lived.run("audit", "verify", "--anchors", str(anchors)).code == 0


@pytest.mark.parametrize(
    ("command", "code", "level"),
    [
        ("ps -o pid=,stat= -p 1", 0, "safe"),
        ("cat /proc/loadavg", 0, "safe"),
        ("systemctl restart db", 4, "review"),
        ("uptime; touch x", 4, "review"),
        ("", 4, "review"),
        ("rm -rf /", 3, "blocked"),
        ("echo hi && sudo /sbin/mkfs.ext4 /dev/sda", 3, "blocked"),
    ],
)
def test_gate_check_answers_by_its_exit_code(
    warm: Warm, tmp_path: Path, command: str, code: int, level: str
) -> None:
    done = warm.run("gate", "check", command, "--json", cwd=tmp_path, environ=os.environ)
    assert done.code == code
    verdict = done.json
    assert (verdict["command"], verdict["level"]) == (command, level)
    assert verdict["rules"]
    assert verdict["explanation"]
    assert verdict["policy_digest"].startswith("sha256:")
    assert list(tmp_path.iterdir()) == [], "judging makes nothing"


def test_gate_check_explains_itself_to_people(warm: Warm, tmp_path: Path) -> None:
    done = run_operator("gate", "check", "rm -rf /", cwd=tmp_path)
    assert done.code == 3
    assert done.out.startswith(
        "BLOCKED, risk critical (80): It deletes the root of the file system"
    )
    assert "  undo     no\n" in done.out
    line = ("gate", "check", "find . -delete")
    helped = warm.run(*line, cwd=tmp_path, environ=os.environ)
    assert (helped.code, "Without -delete this only reads." in helped.out) == (4, True)


def test_gate_check_says_how_lines_are_judged(warm: Warm, tmp_path: Path) -> None:
    one_sentence(
        warm.run("gate", "check", "--stdin", cwd=tmp_path, environ=os.environ),
        Bad("gate check --stdin", 2, r"--stdin needs --json, and takes no COMMAND\."),
    )


def test_gate_check_answers_lines_one_by_one(tmp_path: Path) -> None:
    lines = [
        json.dumps("ls -la"),
        "not JSON",
        json.dumps({"command": "cat shadow", "cwd": "/etc"}),
        json.dumps({"cmd": "ls"}),
        json.dumps(["ls"]),
        "",
        json.dumps("rm -rf / # é\u2028"),
        json.dumps("x" * 2_000_000),
        json.dumps("ls"),
    ]
    start = "import sys; from operator_sre.faces.cli import main; main(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", start, "gate", "check", "--stdin", "--json"],
        input="\n".join(lines).encode(),
        capture_output=True,
        cwd=tmp_path,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.decode().rstrip("\n").split("\n")]
    assert done.returncode == 0, done.stderr
    assert [one.get("level", "error") for one in answers] == [
        *("safe", "error", "blocked", "error", "error", "blocked", "error", "safe"),
    ]
    assert set(answers[0]) == {
        *("schema_version", "command", "level", "risk_score", "risk_level", "rules"),
        *("explanation", "reads", "writes", "network", "sensitive", "reversible"),
        *("confinement", "policy_digest", "unenforced"),
    }
    assert answers[1]["line"] == 2
    assert "Line 2 is not a command" in answers[1]["error"]
    assert answers[2]["sensitive"] == ["/etc/shadow"]


def test_version_and_help_need_no_home(warm: Warm, tmp_path: Path) -> None:
    assert run_operator("--version", cwd=tmp_path).out == f"operator {describe_version()}\n"
    environ = {**os.environ, "OPERATOR_HOME": "/dev/null/x"}
    helped = warm.run("--help", cwd=tmp_path, environ=environ)
    assert helped.code == 0
    assert "tickets" in helped.out


def test_a_noun_without_a_verb_answers_with_its_help(warm: Warm, tmp_path: Path) -> None:
    for words in ((), ("tickets",), ("lab",)):
        done = warm.run(*words, cwd=tmp_path, environ=os.environ)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("Usage: operator")


def test_an_agent_started_with_nohup_outlives_its_terminal(home: Home) -> None:
    nohup = shutil.which("nohup")
    if nohup is None:
        pytest.skip("needs nohup")
    agent = home.start_process([nohup, *home.line("agent", "start")])
    eventually(lambda: _has(agent.pid, "SigCgt", signal.SIGTERM), "it listens to signals")
    assert _has(agent.pid, "SigIgn", signal.SIGHUP)
    assert agent.end(signal.SIGTERM) == 128 + signal.SIGTERM


def _has(pid: int, mask: str, number: signal.Signals) -> bool:
    """A process catches or ignores a signal, by what the kernel says of it."""
    status = Path(f"/proc/{pid}/status").read_text()
    (bits,) = [line.split()[1] for line in status.splitlines() if line.startswith(mask)]
    return bool(int(bits, 16) >> (number - 1) & 1)
