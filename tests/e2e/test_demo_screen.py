"""`operator demo` as a person meets it: panels on a real terminal, keys, and Ctrl-C."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.census import processes_of
from tests.e2e.home import OPERATOR
from tests.e2e.screen import Screen
from tests.e2e.waiting import eventually

GONE_S_MAX = 40.0
# Shorter than the story on a machine that has nothing else to do.
STORY_S = 22.0
SIZE, SMALL = (120, 40), (80, 24)
QUESTION = "Approve this action?"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the demo's own files go."""
    (tmp_path / "tmp").mkdir()
    return tmp_path / "tmp"


def _demo(folder: Path, *words: str, size: tuple[int, int] = SIZE) -> Screen:
    line = [str(OPERATOR), "demo", *words]
    return Screen(line, folder.parent, environ={"TMPDIR": str(folder)}, size=size)


@pytest.fixture
def asking(folder: Path) -> Iterator[Screen]:
    """A demo that asks its viewer."""
    words = ("--mode", "approve", "--record", str(folder.parent / "seen.cast"))
    screen = _demo(folder, *words)
    yield screen
    _close(screen, folder)


def _close(screen: Screen, folder: Path) -> None:
    """Close the window under it, wherever it is; it cleans up all the same."""
    screen.close()
    eventually(lambda: not processes_of(folder), "nothing runs", within_s=GONE_S_MAX)


@pytest.mark.slow
def test_a_person_goes_through_it_approves_the_repair_and_quits(
    asking: Screen, folder: Path
) -> None:
    asking.shows("[1/7] A real cluster", "SPACE ▸ Monitoring", "● node-3", "ops/s")
    asking.press("Space")
    asking.shows("[2/7] Monitoring", "conditions hold", "SPACE ▸ The fault: node_kill")
    asking.resize(*SMALL)
    asking.shows("● node-1", "cluster · normal", "q quit")
    asking.press("Enter")
    asking.shows("[3/7] The fault: node_kill", "Fault in")
    asking.shows(QUESTION, "restart_node(target=node-")
    assert "cluster · recovering" in asking.text
    asking.press("a")
    asking.shows("RESOLVED with a proof")
    asking.resize(*SIZE)
    asking.shows("up   :")  # there is room for their ports again
    asking.press("Right", "Right", "Right", "Right")
    asking.shows("incident report", "Summary")
    asking.press("q")
    assert asking.left() == 0
    assert "The ticket was resolved with a proof." in asking.text
    asking.restored()
    eventually(lambda: not _others(folder), "nothing runs", within_s=GONE_S_MAX)
    _check_recording(folder.parent)


def _check_recording(folder: Path) -> None:
    head, *events = [json.loads(line) for line in (folder / "seen.cast").read_text().splitlines()]
    assert (head["version"], head["width"], head["height"]) == (2, *SIZE)
    times = [at for at, _, _ in events]
    assert times == sorted(times)
    assert {kind for _, kind, _ in events} == {"o", "r"}
    assert "80x24" in [data for _, kind, data in events if kind == "r"]
    assert "A real cluster" in "".join(data for _, kind, data in events if kind == "o")
    told = (folder / "seen.txt").read_text()
    assert "injected into" in told
    assert "approved by" in told


def _others(folder: Path) -> dict[int, str]:
    """Processes of the demo; the shell around it has its folder in its words, too."""
    found = processes_of(folder)
    return {pid: words for pid, words in found.items() if f"TMPDIR={folder}" not in words}


def _stop_at(folder: Path, moment_s: float, *, size: tuple[int, int]) -> bool:
    """False when Python itself had not begun yet, so that nothing of ours was stopped."""
    screen = _demo(folder, "--auto", size=size)
    try:
        ends = time.monotonic() + moment_s
        eventually(lambda: time.monotonic() > ends, "the moment", within_s=moment_s + 5)
        screen.press("C-c")
        code = screen.left()
        if "init_import_site" in screen.text:
            return False
        assert code == 130, screen.text
        assert "Traceback" not in screen.text
        screen.restored()
        eventually(lambda: not _others(folder), "nothing runs", within_s=GONE_S_MAX)
        assert list(folder.iterdir()) == []
        return True
    finally:
        _close(screen, folder)


def test_ctrl_c_gives_the_terminal_back_and_leaves_nothing(folder: Path) -> None:
    screen = _demo(folder)  # it waits for SPACE
    try:
        screen.shows("SPACE ▸ Monitoring")
        screen.press("C-c")
        assert screen.left() == 130
        screen.restored()
        eventually(lambda: not _others(folder), "nothing runs", within_s=GONE_S_MAX)
        assert list(folder.iterdir()) == []
    finally:
        _close(screen, folder)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(50))
def test_ctrl_c_at_any_moment_leaves_nothing(folder: Path, seed: int) -> None:
    chosen = random.Random(seed)
    moment_s, size = chosen.uniform(0.0, STORY_S), chosen.choice([SIZE, SMALL])
    assert _stop_at(folder, moment_s, size=size) or _stop_at(folder, moment_s + 1.0, size=size)
