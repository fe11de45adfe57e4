"""The real program on a real terminal, as a person uses it; and that terminal afterwards."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.driver import Driver

from operator_protocols.domain.permit import ApprovalState
from operator_sre.app.wiring import App
from operator_sre.faces.tui.lines import SteadyDriver
from tests.e2e.waiting import eventually
from tests.faces.tui.world import ask, world_at
from tests.processes.waiting import processes_in

OPERATOR = Path(sys.executable).with_name("operator")
TMUX = shutil.which("tmux")
pytestmark = pytest.mark.skipif(TMUX is None, reason="there is no tmux here")
WAIT_S = 60.0
PRESSED_S_MAX = 3.0


class Tmux:
    """One window of a server of its own, with a shell in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._socket = folder / "tmux"
        self("new-session", "-d", "-x", "120", "-y", "40", "/bin/sh")
        self.type("PS1='ready> '", "Enter")
        self.shows("ready> ")

    def __call__(self, *words: str) -> str:
        """A command of tmux, and what it says."""
        environ = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        command = [str(TMUX), "-u", "-S", str(self._socket), "-f", os.devnull, *words]
        done = subprocess.run(
            command, cwd=self._folder, env=environ, capture_output=True, text=True, check=False
        )
        return done.stdout

    def type(self, *keys: str) -> None:
        """Keys, by the names that tmux has for them."""
        self("send-keys", *keys)

    def screen(self) -> str:
        """What is to be seen."""
        return self("capture-pane", "-p")

    def shows(self, *texts: str) -> None:
        """Wait until all of it is to be seen."""
        what = " and ".join(map(repr, texts))
        eventually(
            lambda: all(text in self.screen() for text in texts),
            f"{what} in\n{self.screen()}",
            within_s=WAIT_S,
        )

    def start(self, home: Path) -> None:
        """The console, in this shell."""
        begun = self._folder / "begun"
        begun.unlink(missing_ok=True)
        words = f"{OPERATOR} --home {shlex.quote(str(home))} tui; echo ended=$?"
        self.type(f": > {shlex.quote(str(begun))}; {words}", "Enter")
        eventually(begun.exists, "its beginning", within_s=WAIT_S)

    def is_given_back(self, before: str) -> None:
        """No alternate screen, no mouse, the modes of before, and a shell that listens."""
        eventually(
            lambda: self("display-message", "-p", "#{alternate_on}#{mouse_any_flag}") == "00\n",
            "the terminal as it was",
            within_s=WAIT_S,
        )
        assert self.has_ended()
        assert self.modes() == before

    def has_ended(self) -> bool:
        """Whether the shell is ready for the next line."""
        return self.screen().rstrip().endswith("\nready>")

    def modes(self) -> str:
        """How the terminal is set."""
        where = self._folder / "stty"
        where.unlink(missing_ok=True)
        self.type("C-u", f"stty -g > {shlex.quote(str(where))}; clear", "Enter")
        return eventually(
            lambda: where.read_text() if where.exists() else "", "stty", within_s=WAIT_S
        )

    def close(self) -> None:
        """End the server, and the shell in it."""
        self("kill-server")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """A home with an incident in it."""
    with world_at(tmp_path) as found:
        yield found


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    """A terminal."""
    made = Tmux(tmp_path)
    yield made
    made.close()


def _nobody_is_left(home: Path) -> None:
    def consoles() -> list[int]:
        found = []
        for pid in processes_in(home):
            words = Path(f"/proc/{pid}/cmdline")
            if words.exists() and b"\0tui\0" in words.read_bytes():
                found.append(pid)
        return found

    eventually(lambda: not consoles(), "no process is left", within_s=WAIT_S)


def test_a_person_goes_through_it_approves_resizes_and_quits(
    app: App, tmux: Tmux, tmp_path: Path
) -> None:
    ask(app)
    before = tmux.modes()
    tmux.start(tmp_path / "home")
    tmux.shows("[1 Health]", "1 pending approval", "✗ BROKEN")
    tmux.type("2")
    tmux.shows("[2 Tickets]", "!! critical")
    tmux.type("Enter")
    tmux.shows("[d Diagnosis]", "confidence 97.0%")
    tmux.type("t")
    tmux.shows("[t Timeline]", "work started by an agent")
    tmux("resize-window", "-x", "80", "-y", "24")
    tmux.type("c")
    tmux.shows("[c Commands]", "│ two", "Help q Quit")
    assert max(map(len, tmux.screen().split("\n"))) <= 80
    tmux.type("Escape")
    tmux.shows("Tickets: live")
    tmux.type("3")
    tmux.shows("systemctl restart shop-node-1", "time left")
    tmux.type("a")
    tmux.shows("(●) approve once")
    tmux.type("C-s")
    tmux.shows("No pending approvals")
    found = app.store.approvals.get("ask-1")
    assert found is not None
    assert found.state is ApprovalState.APPROVED
    tmux.type("q")
    tmux.shows("ended=0")
    tmux.is_given_back(before)
    _nobody_is_left(tmp_path / "home")


def test_a_terminal_that_is_closed_takes_the_console_with_it(
    app: App, tmux: Tmux, tmp_path: Path
) -> None:
    assert issubclass(SteadyDriver, Driver)
    tmux.start(tmp_path / "home")
    tmux.shows("[1 Health]", "● connected")
    tmux.close()
    _nobody_is_left(tmp_path / "home")


def _interrupted(app: App, tmux: Tmux, home: Path, *, times: int, seed: int) -> None:
    chosen, before = random.Random(seed), tmux.modes()
    for _ in range(times):
        tmux.start(home)
        time.sleep(chosen.uniform(0.0, PRESSED_S_MAX))
        tmux.type(*chosen.choice([("2",), ("3", "a"), ("5", "ls", "Enter"), ("6", "v"), ("K",)]))
        tmux.type("C-c")
        eventually(lambda: _pressed(tmux), "its end", within_s=WAIT_S)
        tmux.is_given_back(before)
    _nobody_is_left(home)
    assert not app.store.switch.state().on


def _pressed(tmux: Tmux) -> bool:
    """Whoever waits presses again, while it cleans up as well."""
    if tmux.has_ended():
        return True
    tmux.type("C-c")
    return False


def test_ctrl_c_at_any_moment_gives_the_terminal_back(app: App, tmux: Tmux, tmp_path: Path) -> None:
    _interrupted(app, tmux, tmp_path / "home", times=2, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ctrl_c_at_fifty_moments_gives_the_terminal_back(
    app: App, tmux: Tmux, tmp_path: Path
) -> None:
    _interrupted(app, tmux, tmp_path / "home", times=50, seed=2)
