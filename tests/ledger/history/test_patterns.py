"""What worked again and again is learned, and offered again."""

from __future__ import annotations

import re

import pytest

from operator_protocols.domain.command import Attempt
from operator_protocols.domain.pattern import Pattern
from operator_sre.ledger.history.patterns import category_of_line, learn, rank_patterns
from tests.ledger.history.attempts import attempt, attempts


def test_a_repeated_success_becomes_a_pattern() -> None:
    history = [
        attempt(f"kill -9 {pid}", context="It hangs.", level="review", cwd="/srv")
        for pid in (100, 101, 101, 102)
    ]
    history.append(attempt("kill -9 103", exit_code=1, cwd="/srv"))
    (pattern,) = learn(history)
    assert re.fullmatch(r"kill-[0-9a-f]{4}", pattern.name)
    assert pattern.lines == ("kill -9 {pid}",)
    assert (pattern.category, pattern.learned) == ("processes", True)
    assert (pattern.uses, pattern.success_rate) == (5, 0.8)
    assert pattern.placeholders == ("pid",)
    assert pattern.examples == {"pid": ("101", "100", "102")}
    assert pattern.contexts == ("It hangs.",)
    assert pattern.preconditions["cwd"] == "/srv"
    assert "approval" in pattern.preconditions


def test_nothing_is_learned_from_little_or_from_failure() -> None:
    assert learn(attempts("df -h", "df -h")) == []
    assert learn([*attempts(*["x"] * 3), *attempts(*["x"] * 5, exit_code=1)]) == []
    assert learn([attempt("x", outcome="refused", exit_code=None) for _ in range(9)]) == []
    assert learn([]) == []
    assert len(learn(attempts("df -h", "df -h"), runs_min=2)) == 1


def test_python_needs_an_environment() -> None:
    (pattern,) = learn(attempts(*["pip install requests"] * 3))
    assert pattern.preconditions == {"venv_required": True}
    assert pattern.category == "package_management"


def test_a_line_that_could_be_taken_for_a_template_teaches_nothing() -> None:
    assert learn(attempts(*["echo {name}"] * 5)) == []


def _repair(node: str, run: str) -> list[Attempt]:
    lines = (f"check_port(target={node})", f"restart_node(target={node})")
    return [attempt(line, tool=line.partition("(")[0], run=run) for line in lines]


def test_a_sequence_that_worked_in_several_runs_is_learned_whole() -> None:
    history = [one for n in range(3) for one in _repair(f"node-{n}", f"run-{n}")]
    patterns = {pattern.lines: pattern for pattern in learn(history)}
    both = ("check_port(target={target})", "restart_node(target={target})")
    assert set(patterns) == {both, both[:1], both[1:]}
    assert patterns[both].uses == 3
    assert patterns[both].category == "services"
    assert patterns[both].name.startswith("check_port-restart_node-")


def test_only_the_longest_of_sequences_is_kept() -> None:
    history = [one for n in range(3) for one in attempts("ls", "df -h", "free -m", run=f"run-{n}")]
    longest = [pattern.lines for pattern in learn(history) if len(pattern.lines) > 1]
    assert longest == [("ls", "df -h", "free -m")]


def test_a_failure_breaks_a_sequence_and_one_run_makes_none() -> None:
    broken = [
        one
        for n in range(3)
        for one in (
            *attempts("ls", run=f"run-{n}"),
            *attempts("df -h", run=f"run-{n}", exit_code=1),
            *attempts("free -m", run=f"run-{n}"),
        )
    ]
    once = attempts(*["ls", "df -h"] * 5, run="run-9")
    assert all(len(pattern.lines) == 1 for pattern in learn([*broken, *once]))


def test_names_stay_the_same_and_differ() -> None:
    history = attempts(*["systemctl restart nginx"] * 3, *["systemctl restart redis"] * 3)
    names = [pattern.name for pattern in learn(history)]
    assert names == [pattern.name for pattern in learn([*history, *history])]
    assert len(set(names)) == len(names) == 2
    assert all(name.startswith("systemctl-restart-") for name in names)


@pytest.mark.parametrize(
    ("line", "category"),
    [
        ("/usr/bin/git push", "version_control"),
        ("kubectl get pods", "containers"),
        ("restart_node(target={target})", "services"),
        ("check_port(target={target})", "network"),
        ("df -h", "disk"),
        ("frobnicate", "general"),
        ("", "general"),
    ],
)
def test_a_category_follows_from_the_program(line: str, category: str) -> None:
    assert category_of_line(line) == category


def _pattern(name: str, *lines: str, context: str = "", rate: float = 1.0) -> Pattern:
    return Pattern(name, lines, contexts=(context,), success_rate=rate)


RESTART = _pattern("a", "restart_node(target={target})", context="The node does not answer.")
DISK = _pattern("b", "df -h {path}", context="Is the disk full?")
NODES = _pattern("c", "kubectl get nodes", context="Which nodes are there?")


@pytest.mark.parametrize(
    ("need", "first"),
    [
        ("restart node", RESTART),
        ("the node is not answering", RESTART),
        ("Restarting it", RESTART),
        ("disk full", DISK),
        ("kubectl", NODES),
    ],
)
def test_the_nearest_pattern_is_offered_first(need: str, first: Pattern) -> None:
    assert rank_patterns([NODES, DISK, RESTART], need)[0] == first


def test_what_has_nothing_to_do_with_a_need_is_not_offered() -> None:
    assert rank_patterns([RESTART, DISK], "coffee") == []
    assert rank_patterns([RESTART, DISK], "🔥") == []
    assert rank_patterns([], "restart") == []


def test_what_worked_more_often_is_offered_first() -> None:
    bad, good = (_pattern(name, "reboot now", rate=rate) for name, rate in [("a", 0.1), ("b", 1.0)])
    assert rank_patterns([bad, good], "reboot") == [good, bad]
