"""`operator lab` on a real rig: every verb for people and for programs."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_sre.plugins import find_plugin
from tests.e2e.census import is_alive
from tests.e2e.home import Home, Json
from tests.e2e.waiting import eventually
from tests.e2e.warm import Warm
from tests.faces.cli.sentences import Bad, one_sentence

NAME = "ratelimiter"


@pytest.fixture(scope="module")
def rigged(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Iterator[Home]:
    """A home with a rig that is up."""
    home = Home(tmp_path_factory.mktemp("rigged"), warm)
    try:
        shown = home.run("lab", "up", NAME)
        assert (shown.code, shown.err) == (0, "")
        assert shown.out.startswith("TARGET")
        yield home
    finally:
        home.close()


def _ask(home: Home, *words: str) -> Json:
    """What a verb answers to programs; a warm process serves as well as one that is started."""
    done = home.run("lab", *words, "--json")
    assert done.code == 0, done
    return done.json


def _status(home: Home) -> Json:
    rig: Json = _ask(home, "status")["rig"]
    return rig


def test_status_has_everything_of_every_target_and_the_load(rigged: Home) -> None:
    eventually(
        lambda: ((_status(rigged)["load"] or {}).get("latency") or {}).get("p99_ms"), "a latency"
    )
    rig = _status(rigged)
    assert (rig["subject"], rig["broken"]) == (NAME, [])
    for target in rig["targets"]:
        assert is_alive(target["pid"])
        assert 0 < target["port"] < 65536
        assert all(0 < port < 65536 for port in target["ports"].values())
        assert Path(target["log"]).is_file()
        assert Path(target["data_dir"]).is_dir()
    load = rig["load"]
    assert load["shape"] == "steady"
    assert 0.0 <= load["success_rate"] <= 1.0
    assert load["latency"]["p50_ms"] <= load["latency"]["p95_ms"] <= load["latency"]["p99_ms"]
    text = rigged.run("lab", "status", NAME).out
    for target in rig["targets"]:
        assert str(target["pid"]) in text
        assert f"{target['name']}.log" in text
    assert "load:      steady" in text
    assert "% ok, p50 " in text
    assert f"directory: {rig['directory']}" in text


def test_what_is_broken_is_told_with_the_word_of_its_oracle(rigged: Home) -> None:
    hurt = rigged.run("lab", "break", "node_pause", "--target", "node-2")
    assert (hurt.code, hurt.out) == (0, "node_pause: injected into node-2.\n")
    (one,) = _status(rigged)["broken"]
    assert (one["fault"], one["target"], one["over"]) == ("node_pause", "node-2", False)
    assert "node-2" in one["still"]
    text = rigged.run("lab", "status").out
    assert "broken:    node_pause at node-2, still: node-2" in text
    assert f"operator lab heal {NAME} --home" in text

    again = _ask(rigged, "restart", "--target", "node-2")
    assert (again["subject"], again["restarted"]) == (NAME, ["node-2"])
    assert _status(rigged)["broken"][0]["over"] is True
    assert "node_pause at node-2, already gone" in rigged.run("lab", "status").out
    healed = _ask(rigged, "heal", NAME, "node_pause")
    assert (healed["fault"], healed["target"]) == ("node_pause", "node-2")
    assert healed["healed"] == [{"fault": "node_pause", "target": "node-2"}]


def test_without_a_fault_all_are_healed(rigged: Home) -> None:
    _ask(rigged, "break", NAME, "node_kill", "--target", "node-1")
    _ask(rigged, "break", NAME, "node_pause", "--target", "node-3")
    healed = rigged.run("lab", "heal")
    assert (healed.code, healed.out.splitlines()) == (
        0,
        ["node_pause: node-3 is healed.", "node_kill: node-1 is healed."],
    )
    assert {target["state"] for target in _status(rigged)["targets"]} == {"running"}
    assert rigged.run("lab", "heal", NAME).out == f"Nothing is broken in the rig of {NAME}.\n"
    assert _ask(rigged, "heal")["healed"] == []


def test_faults_are_listed_with_and_without_a_rig(rigged: Home, home: Home) -> None:
    names = [fault.name for fault in find_plugin(NAME).faults]
    there = rigged.run("lab", "faults", NAME, "--json").json["faults"]
    assert [one["name"] for one in there] == names
    for one in there:
        assert set(one) >= {"sentence", "kind", "breaks", "end", "available", "why_not"}
        assert one["available"] is not bool(one["why_not"])
    nowhere = home.run("lab", "faults", NAME, "--json").json["faults"]
    assert {one["available"] for one in nowhere} == {None}
    text = home.run("lab", "faults").out
    assert text.startswith("SUBJECT")
    assert "node_kill" in text
    assert "when a rig is up" in text
    assert not (home.path / "lab").exists()


def test_logs_are_shown_harmless_and_followed(rigged: Home) -> None:
    log = Path(next(one["log"] for one in _status(rigged)["targets"] if one["name"] == "node-1"))
    with log.open("ab") as file:
        file.write(b"look \x1b]0;owned\x07 here\n")
    shown = rigged.run("lab", "logs", "--target", "node-1", "--lines", "1")
    assert (shown.code, shown.out) == (0, "node-1      look \\x1b]0;owned\\x07 here\n")
    told = rigged.run("lab", "logs", NAME, "--json").json["logs"]
    assert {one["target"] for one in told} >= {"node-1", "node-2", "node-3", "load"}
    (node,) = [one for one in told if one["target"] == "node-1"]
    assert node["log"] == str(log)
    assert node["lines"][-1] == "look \x1b]0;owned\x07 here"

    following = rigged.fork("lab", "logs", "--target", "node-1", "--follow", "--json")
    eventually(lambda: "look" in following.said, "the last lines")
    with log.open("ab") as file:
        file.write(b"and on\n")
    eventually(lambda: "and on" in following.said, "a new line")
    assert following.end() == 128 + signal.SIGTERM
    last = json.loads(following.said.splitlines()[-1])
    assert (last["target"], last["line"]) == ("node-1", "and on")


@pytest.mark.parametrize(
    "bad",
    [
        Bad("lab status nosuch", 2, r"no subject 'nosuch'\. Known subjects: .*ratelimiter"),
        Bad("lab restart --target moon", 2, r"no target 'moon' .*node-1, node-2, node-3"),
        Bad("lab logs --target moon", 2, r"no target 'moon' .*Logs: .*node-1"),
        Bad("lab logs --lines 0", 2, r"--lines must be at least 1, not '0'\."),
        Bad("lab break", 2, r"Name a fault\. Faults: node_kill"),
        Bad("lab break ratelimiter", 2, r"Name a fault\. Faults: node_kill"),
        Bad("lab break nosuch", 2, r"no fault 'nosuch'\. Faults: node_kill"),
        Bad("lab break a b c", 2, r"At most a subject and a fault"),
        Bad("lab heal nosuch", 2, r"no fault 'nosuch'\. Faults: node_kill"),
        Bad("lab heal --target moon", 2, r"no target 'moon' .*node-1"),
        Bad("lab faults nosuch", 2, r"no subject 'nosuch'\. Known subjects: .*ratelimiter"),
        Bad("lab attach ratelimiter", 2, r"'ratelimiter' cannot be attached .*: kubernetes\."),
        Bad("lab attach --kubeconfig /nosuch", 2, r"no kubeconfig '/nosuch'\. Name one with"),
        Bad("lab up", 2, r"Name a subject\. Rigs: .*ratelimiter"),
    ],
    ids=lambda bad: bad.line,
)
def test_what_makes_no_sense_is_one_sentence_with_the_valid_names(rigged: Home, bad: Bad) -> None:
    one_sentence(rigged.run(*bad.line.split()), bad)


@pytest.mark.parametrize("verb", ["status", "restart", "heal", "logs", "break node_kill"])
def test_without_a_rig_the_next_step_is_to_start_one(home: Home, verb: str) -> None:
    line = f"lab {verb}"
    one_sentence(home.run(*line.split()), Bad(line, 2, r"No rig is up\. .*operator lab up"))


def test_down_without_a_rig_is_fine(home: Home) -> None:
    assert home.run("lab", "down").out == "No rig is up.\n"
    assert home.run("lab", "down", "--json").json["subject"] is None
    assert home.run("lab", "down", NAME, "--json").json["down"] is True
