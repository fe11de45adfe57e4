"""The tutorial does what it says: its commands run in order, and print what it shows."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.home import Home, Running
from tests.e2e.transcript import Shown, fits, ids_of, masked, shown_in
from tests.e2e.waiting import eventually
from tests.e2e.warm import Done

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
STEPS = ("Watch", "File", "Think", "Decide", "Act", "Prove", "Remember")
# Whoever follows a tutorial looks again; what changes something is typed once.
LOOKING = ("approvals show", "audit", "gate", "health", "history", "report", "tickets")


def test_what_is_compared_differs_in_nothing_but_times_ports_and_ids() -> None:
    line = "1   claimed  critical  -  03-04 12:00:20  node-2: 127.0.0.1:26866: connection refused"
    other = "1   claimed  critical  -   11-16 00:28:04   node-2: 127.0.0.1:9: connection refused"
    assert masked(line) == masked(other)
    assert fits([line], other)
    for wrong in ("resolved", "node-3", "warning"):
        assert not fits([line], other.replace("claimed", wrong).replace("node-2", wrong))
    assert fits(["node-1  node  running  17740  21298"], "node-1  node  running  7   9429")
    assert fits(["a", "...", "z"], "a\nb\nc\nz\n")
    assert fits(["a", "...", "z"], "a\nz")
    assert not fits(["a", "...", "z"], "a\nb\n")
    assert not fits(["a"], "a\nb")
    assert ids_of(["x 0123456789ab"], "x ba9876543210") == {"0123456789ab": "ba9876543210"}


def test_it_has_seven_steps_and_every_command_is_one_that_is_run() -> None:
    text = TUTORIAL.read_text()
    titles = re.findall(r"^## \d.*$", text, re.MULTILINE)
    assert titles == [f"## {number}. {name}" for number, name in enumerate(STEPS, 1)]
    commands = [one.command for one in shown_in(text)]
    assert len(commands) == text.count("\n$ ") >= 14
    assert text.count("```") == 2 * text.count("```console")


def test_the_tutorial_does_what_it_says(home: Home) -> None:
    names: dict[str, str] = {}
    running: Running | None = None
    steps = list(shown_in(TUTORIAL.read_text()))
    assert len(steps) >= len(STEPS)
    for shown in steps:
        command = _named(shown.command, names)
        if command.endswith(" &"):
            running = home.fork(*shlex.split(command.removesuffix(" &"))[1:])
        elif command == "kill %1":
            assert running is not None
            assert running.end() == 128 + signal.SIGTERM
        else:
            told = _typed(home, shown, command)
            names |= ids_of(shown.lines, told)


def _named(command: str, names: Mapping[str, str]) -> str:
    for theirs, ours in names.items():
        command = command.replace(theirs, ours)
    return command


def _typed(home: Home, shown: Shown, command: str) -> str:
    """Type it, and again for as long as it only looks and something else is shown."""
    first, *words = shlex.split(command)
    assert first == "operator", command
    said: list[str] = []
    looks = " ".join(words).startswith(LOOKING)

    def told() -> str:
        said.append(_all(home.run(*words)))
        if fits(shown.lines, said[-1]):
            return said[-1]
        if looks:
            home.looked(1)  # nothing changes before, and to ask again costs more than to wait
        return ""

    try:
        found = eventually(told, command) if looks else told()
    except AssertionError:
        found = ""
    if not found:
        pytest.fail(f"$ {command}\nprints\n{said[-1]}\nand not\n" + "\n".join(shown.lines))
    return found


def _all(done: Done) -> str:
    # A check that is under way while the node is killed reports the end of its connection.
    return (done.out + done.err).replace("it closed the connection", "connection refused")
