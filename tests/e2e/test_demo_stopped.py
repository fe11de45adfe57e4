"""A demo that is stopped, at any moment and in any way, leaves nothing behind."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.census import processes_of
from tests.e2e.home import OPERATOR
from tests.e2e.terminal import Terminal
from tests.e2e.waiting import eventually

STARTING, STARTED, BROKEN = "starting a real", "node-3 ", "injected into"
GONE_S_MAX = 40.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the demo's own files go."""
    (tmp_path / "tmp").mkdir()
    return tmp_path / "tmp"


@pytest.fixture
def demo(folder: Path) -> Iterator[Terminal]:
    """A demo in lines on a terminal, just started."""
    environ = {"TMPDIR": str(folder)}
    terminal = Terminal([str(OPERATOR), "demo", "--plain"], cwd=folder.parent, environ=environ)
    yield terminal
    terminal.close()


def _left_as_it_was(demo: Terminal) -> None:
    """The terminal is as it was, and nobody was shown anything ugly."""
    assert demo.attributes() == demo.before
    assert demo.shown.rfind("\x1b[?25h") >= demo.shown.rfind("\x1b[?25l"), "the cursor is there"
    assert "Traceback" not in demo.shown


@pytest.mark.parametrize(
    "moment",
    [pytest.param(STARTING, marks=pytest.mark.slow), BROKEN],
    ids=["while it starts", "when it is broken"],
)
def test_ctrl_c_ends_it_cleanly(demo: Terminal, folder: Path, moment: str) -> None:
    demo.shows(moment)
    demo.press_ctrl_c()
    assert demo.ended() == 130
    assert processes_of(folder) == {}
    assert list(folder.iterdir()) == []
    _left_as_it_was(demo)


@pytest.mark.slow
def test_an_impatient_ctrl_c_ends_it_as_cleanly(demo: Terminal, folder: Path) -> None:
    demo.shows(STARTED)
    assert demo.ended(pressing=True) == 130
    eventually(lambda: not processes_of(folder), "the rig is gone", within_s=GONE_S_MAX)
    assert list(folder.iterdir()) == []
    _left_as_it_was(demo)


@pytest.mark.slow
def test_sigterm_ends_it_cleanly(demo: Terminal, folder: Path) -> None:
    demo.shows(STARTED)
    demo.signal(signal.SIGTERM)
    assert demo.ended() == 128 + signal.SIGTERM
    assert processes_of(folder) == {}
    assert list(folder.iterdir()) == []
    _left_as_it_was(demo)


@pytest.mark.parametrize(
    "moment",
    [STARTING, pytest.param(STARTED, marks=pytest.mark.slow)],
    ids=["while it starts", "when it is up"],
)
def test_kill_nine_takes_its_rig_along(demo: Terminal, folder: Path, moment: str) -> None:
    demo.shows(moment)
    eventually(lambda: len(processes_of(folder)) > 1, "the rig begins to start")
    demo.signal(signal.SIGKILL)
    assert demo.ended() == -signal.SIGKILL
    eventually(lambda: not processes_of(folder), "the rig is gone", within_s=GONE_S_MAX)
