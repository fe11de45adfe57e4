"""`operator history`: what was done, told to people and to programs."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.category import FailureCategory
from operator_sre.store import open_store
from tests.contract.clock import HeldClock
from tests.contract.doing import DONE, Doer
from tests.e2e.warm import Done, Warm
from tests.faces.cli.sentences import Bad, one_sentence


class _Past:
    """A home with a history, and the commands of a person on it."""

    def __init__(self, folder: Path, warm: Warm) -> None:
        self.folder = folder
        self._warm = warm

    def run(self, *words: str) -> Done:
        home = ("--home", str(self.folder / "home"))
        return self._warm.run(*home, *words, cwd=self.folder, environ=os.environ)

    def ask(self, *words: str) -> dict[str, Any]:
        done = self.run(*words, "--json")
        assert done.code == 0, done
        return done.json

    def commands(self, *words: str) -> list[str]:
        return [one["command"] for one in self.ask("history", *words)["commands"]]


async def _live(path: Path) -> None:
    clock = HeldClock()
    store = open_store(path, clock=clock)
    doer = await Doer.hired(store, clock)
    restart = Action.shell(
        "systemctl restart nginx", target="node-1", reasoning="The port is mute."
    )
    for pid in (100, 101, 102):
        await doer.run(Action.shell(f"kill -9 {pid}", reasoning="The worker hangs."))
    await doer.run(restart, replace(DONE, stdout="started\x1b[31m", duration_s=1.5))
    await doer.run(restart, replace(DONE, exit_code=1, category=FailureCategory.PERMISSION))
    await doer.run("pip install requests")
    await doer.refuse(Action.shell("mkfs /dev/sda", reasoning="a fresh start"))
    await doer.run("ls -la --force 🔥")
    store.close()


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> _Past:
    """Eight commands of one run."""
    folder = tmp_path_factory.mktemp("past")
    (folder / "home").mkdir()
    asyncio.run(_live(folder / "home" / "operator.db"))
    return _Past(folder, warm)


def test_history_list_tells_every_command_newest_first(past: _Past) -> None:
    listed = past.commands("list")
    assert listed[:3] == ["ls -la --force 🔥", "mkfs /dev/sda", "pip install requests"]
    assert len(listed) == 8
    text = past.run("history", "list").out
    assert "refused" in text
    assert "exit 1" in text
    assert "blocked" in text


def test_history_list_can_be_filtered_and_paged(past: _Past) -> None:
    assert past.commands("list", "--outcome", "refused") == ["mkfs /dev/sda"]
    assert past.commands("list", "--level", "blocked") == ["mkfs /dev/sda"]
    assert past.commands("list", "--target", "node-1", "--outcome", "succeeded") == [
        "systemctl restart nginx"
    ]
    assert len(past.commands("list", "--ticket", "1", "--run", "run-1")) == 8
    assert past.commands("list", "--since", "1h") == []
    assert len(past.commands("list", "--since", "2026-03-04")) == 8
    first = past.ask("history", "list", "--limit", "2")["commands"]
    rest = past.commands("list", "--before", str(first[-1]["seq"]))
    assert len(rest) == 6


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["restart", "nginx"], 2),
        (["nginx", "--outcome", "failed"], 1),
        (["ls", "-la"], 1),
        (["--force"], 1),
        (["🔥"], 1),
        (["fresh start"], 1),
        (['"start fresh"'], 0),
        (["AND OR NOT ( *"], 0),
        (["C++"], 0),
        (["kil*"], 3),
        (["--", "--json"], 0),
    ],
)
def test_history_search_takes_any_text(past: _Past, words: list[str], found: int) -> None:
    done = past.run("history", "search", "--json", *words)
    assert done.code == 0, done
    assert len(done.json["commands"]) == found
    assert done.json["behind"] == 0


def test_history_show_tells_all_of_one_command_and_harms_no_terminal(past: _Past) -> None:
    (one,) = past.ask("history", "list", "--target", "node-1", "--outcome", "succeeded")["commands"]
    shown = past.ask("history", "show", str(one["seq"]))["command"]
    assert shown == one
    assert (shown["context"], shown["agent_type"]) == ("The port is mute.", "reasoner")
    text = past.run("history", "show", str(one["seq"])).out
    for part in ("systemctl restart nginx", "The port is mute.", "exit 0 in 1.50 s", "review"):
        assert part in text
    assert "\x1b" not in text


def test_history_stats_count_each_command(past: _Past) -> None:
    figures = past.ask("history", "stats")
    assert figures["attempts"] == 8
    one = next(row for row in figures["commands"] if row["command"] == "systemctl restart nginx")
    assert (one["total"], one["successful"], one["failed"]) == (2, 1, 1)
    assert (one["success_rate"], one["avg_duration_s"]) == (0.5, 0.75)
    assert figures["success_patterns"] == []
    assert "50%" in past.run("history", "stats").out


def test_history_failures_come_by_category(past: _Past) -> None:
    (group,) = past.ask("history", "failures")["by_category"]
    assert (group["category"], group["count"]) == ("permission", 1)
    assert group["examples"][0]["command"] == "systemctl restart nginx"
    assert "permission: 1" in past.run("history", "failures").out


def test_history_venv_names_what_ran_without_one(past: _Past) -> None:
    (one,) = past.ask("history", "venv")["violations"]
    assert (one["program"], one["attempt"]["command"]) == ("pip", "pip install requests")
    assert ".venv/bin/pip" in past.run("history", "venv").out


def test_history_patterns_list_offers_what_was_learned(past: _Past) -> None:
    (learned,) = past.ask("history", "patterns", "list", "--like", "a worker hangs")["patterns"]
    assert learned["lines"] == ["kill -9 {pid}"]
    assert (learned["uses"], learned["success_rate"], learned["learned"]) == (3, 1.0, True)
    assert past.ask("history", "patterns", "list", "--like", "coffee")["patterns"] == []
    text = past.run("history", "patterns", "show", learned["name"]).out
    assert "such as 100, 101, 102" in text


def test_history_patterns_use_prints_the_verdict_and_runs_nothing(past: _Past) -> None:
    (learned,) = past.ask("history", "patterns", "list", "--like", "worker")["patterns"]
    filled = past.ask("history", "patterns", "use", learned["name"], "pid=4711; touch made")
    assert filled["level"] == "review"
    (line,) = filled["lines"]
    assert line["command"] == "kill -9 '4711; touch made'"
    assert line["explanation"]
    assert not (past.folder / "made").exists()
    text = past.run("history", "patterns", "use", learned["name"], "pid=4711").out
    assert text.startswith("kill -9 4711\n  REVIEW, risk ")


def test_a_pattern_is_created_used_and_deleted_and_the_ledger_keeps_it(past: _Past) -> None:
    done = past.run(
        *("history", "patterns", "create", "restart-service", "systemctl restart {service}"),
        *("systemctl status {service}", "--for", "it hangs", "--precondition", "os=linux"),
    )
    assert (done.code, done.out) == (0, "Created pattern 'restart-service' with 2 lines.\n")
    shown = past.ask("history", "patterns", "show", "restart-service")["pattern"]
    assert (shown["category"], shown["preconditions"]) == ("services", {"os": "linux"})
    assert shown["success_rate"] == 0.5, "it fits what was run before"
    past.ask("history", "patterns", "use", "restart-service", "service=nginx")
    assert past.ask("history", "patterns", "show", "restart-service")["pattern"]["uses"] == 1
    again = past.run("history", "patterns", "create", "restart-service", "ls")
    assert (again.code, again.out) == (1, "")
    assert past.run("history", "patterns", "delete", "restart-service", "--reason", "old").code == 0
    gone = past.run("history", "patterns", "show", "restart-service")
    assert gone.code == 2
    told = past.run("audit", "tail", "--json").out
    assert told.count('"pattern_created"') == told.count('"pattern_deleted"') == 1


def test_what_was_learned_can_be_hidden(past: _Past) -> None:
    (learned,) = past.ask("history", "patterns", "list", "--like", "worker")["patterns"]
    past.ask("history", "patterns", "delete", learned["name"])
    assert past.ask("history", "patterns", "list", "--like", "worker")["patterns"] == []


def test_an_empty_home_has_no_history(warm: Warm, tmp_path: Path) -> None:
    empty = _Past(tmp_path, warm)
    for verb in ("list", "stats", "failures", "venv", "patterns list", "search x"):
        done = empty.run("history", *verb.split())
        assert (done.code, done.err, done.out.count("\n")) == (0, "", 1)


BAD = (
    Bad("history show 99999", 2, r"no command 99999\. .*operator history list"),
    Bad("history show many", 2, r"SEQ must be a whole number, not 'many'"),
    Bad("history show 9999999999999999999999", 2, r"SEQ must be at most [0-9]*, not '9+'"),
    Bad(
        "history list --level loud",
        2,
        r"no level 'loud'\. Levels: safe, review, blocked",
    ),
    Bad("history list --outcome odd", 2, r"'odd' is not a valid outcome\. Outcomes: .*succeeded"),
    Bad("history list --since yesterday", 2, r"'yesterday' is not a valid time\. Use 30m"),
    Bad("history list --limit 0", 2, r"limit"),
    Bad("history search", 2, r"is missing\. See: operator history search --help"),
    Bad("history patterns list --limit 0", 2, r"limit"),
    Bad("history patterns show nosuch", 2, r"no pattern 'nosuch'\. .*patterns list"),
    Bad("history patterns use nosuch", 2, r"no pattern 'nosuch'"),
    Bad("history patterns delete nosuch", 2, r"no pattern 'nosuch'"),
    Bad("history patterns create X ls", 2, r"'X' is not a valid name"),
    Bad("history patterns create x '{a}'", 2, r"inside quotes\. Remove the quotes"),
    Bad("history patterns create x ls --precondition odd", 2, r"'odd' is not a valid key=value"),
    Bad("history patterns use kill odd", 2, r"'odd' is not a valid key=value"),
)


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.line)
def test_bad_input_is_told_in_one_sentence(warm: Warm, tmp_path: Path, bad: Bad) -> None:
    one_sentence(_Past(tmp_path, warm).run(*bad.line.split()), bad)


def test_looking_for_nothing_is_told_in_one_sentence(past: _Past) -> None:
    one_sentence(past.run("history", "search", " "), Bad("", 2, r"query is empty"))
