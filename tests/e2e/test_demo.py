"""`operator demo` to its end: in a pipe, on a terminal and as JSON."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Violation
from tests.contract_messages.holding import held_to_schema
from tests.e2e.census import processes_of
from tests.e2e.home import OPERATOR, Home, Json, run_operator
from tests.e2e.terminal import Terminal
from tests.e2e.warm import Warm

DEMO_S_MAX = 100.0
STEPS = ["rig", "watch", "fault", "file", "think", "decide", "act", "prove", "close"]
REDIS_PORT = 6379
ESCAPE = "\x1b"


@dataclass(frozen=True, slots=True)
class Piped:
    """A demo that ran in a pipe, and where it was."""

    folder: Path
    done: subprocess.CompletedProcess[bytes]


@dataclass(frozen=True, slots=True)
class Shows:
    """Two demos that ran at once, and where they were."""

    folder: Path
    terminal: Terminal
    terminal_code: int
    events: list[Json]
    json_code: int


def _lived_in(folder: Path, warm: Warm) -> Path:
    """A home in which a ticket was resolved long ago."""
    home = Home(folder, warm)
    since = datetime(2026, 1, 1, tzinfo=UTC)
    violation = Violation("ratelimiter", "node_down", "node-9", Severity.CRITICAL, "old", since)

    async def live() -> None:
        ticket = await home.store.tickets.open([violation])
        payload = {"reason": "long ago", "proof": {}}
        await home.store.leases.end(ticket, Draft(Kind.TICKET_RESOLVED, payload, ticket=ticket.id))

    asyncio.run(live())
    home.close()
    return home.path


def _environ(folder: Path) -> dict[str, str]:
    """A user whose own state, temporary files and settings are in this folder."""
    (folder / "tmp").mkdir(parents=True)
    toml = '[subjects.ratelimiter]\ntargets = [{name = "mine", kind = "node", port = 9}]\n'
    (folder / "operator.toml").write_text(toml)
    return {"TMPDIR": str(folder / "tmp"), "XDG_STATE_HOME": str(folder / "state")}


@pytest.fixture(scope="module")
def piped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Piped]:
    """A demo in a pipe, while something else listens where Redis would."""
    folder = tmp_path_factory.mktemp("piped")
    environ = _environ(folder)
    words = [str(OPERATOR), "demo"]
    with ExitStack() as stack:
        taken = stack.enter_context(socket.socket())
        with suppress(OSError):  # whoever has it already serves the test as well
            taken.bind(("127.0.0.1", REDIS_PORT))
            taken.listen()
        demo = _start(stack, words, folder, environ)
        out, err = demo.communicate(timeout=DEMO_S_MAX)
        yield Piped(folder, subprocess.CompletedProcess(words, demo.returncode, out, err))


@pytest.fixture(scope="module")
def shows(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Iterator[Shows]:
    """A demo on a terminal and one as JSON in a home with a past, both at once."""
    folder = tmp_path_factory.mktemp("shows")
    environ = _environ(folder)
    words = [str(OPERATOR), "demo"]
    home = str(_lived_in(folder, warm))
    with ExitStack() as stack:
        terminal = Terminal([*words, "--plain"], cwd=folder, environ=environ)
        stack.callback(terminal.close)
        as_json = _start(stack, [*words, "--json", "--home", home], folder, environ)
        lines, _ = as_json.communicate(timeout=DEMO_S_MAX)
        held_to_schema(("demo", "--json"), lines.decode())
        yield Shows(
            folder=folder,
            terminal=terminal,
            terminal_code=terminal.ended(),
            events=[json.loads(line) for line in lines.decode().splitlines()],
            json_code=as_json.returncode,
        )


def _start(
    stack: ExitStack, words: list[str], cwd: Path, environ: dict[str, str]
) -> subprocess.Popen[bytes]:
    """Start a demo in a pipe; whatever happens it does not outlive the stack."""
    pipe = subprocess.PIPE
    env = {**os.environ, **environ}
    process = stack.enter_context(
        subprocess.Popen(
            words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
    )
    stack.callback(process.kill)
    return process


def test_in_a_pipe_it_is_plain_lines_in_the_order_of_the_journey(piped: Piped) -> None:
    assert piped.done.returncode == 0
    assert piped.done.stderr == b""
    text = piped.done.stdout.decode()
    assert not [letter for letter in text if not letter.isprintable() and letter != "\n"]
    told = re.findall(r"(?m)^ *[0-9.]+ s  (\w+)", text)
    assert list(dict.fromkeys(told)) == STEPS
    assert "node_kill: injected into node-" in text
    assert "The ticket was resolved with a proof." in text
    for figure in ("time to detect", "time to repair", "time to proof"):
        assert re.search(rf"{figure} +[0-9.]+ s", text)
    assert "chain intact" in text


def test_the_commands_it_names_at_its_end_work(piped: Piped) -> None:
    text = piped.done.stdout.decode()
    named = [line.split()[1:] for line in text.partition("Next:")[2].split("\n") if line]
    assert [words[:2] for words in named] == [
        ["tickets", "show"],
        ["audit", "show"],
        ["audit", "verify"],
    ]
    lines = [line for line in text.partition("Next:")[2].split("\n") if line]
    assert all(Path(line.split()[0]).name == "operator" for line in lines)
    assert all(shutil.which(line.split()[0]) for line in lines)
    for words in named:
        done = run_operator(*words, cwd=piped.folder, environ={})
        assert (done.code, done.err) == (0, "")


@pytest.mark.slow
def test_as_json_every_line_is_a_document_and_the_last_one_is_the_end(shows: Shows) -> None:
    assert shows.json_code == 0
    assert {event["schema_version"] for event in shows.events} == {"1.0.0"}
    assert list(dict.fromkeys(event["step"] for event in shows.events[:-1])) == STEPS
    end = shows.events[-1]
    assert (end["event"], end["proven"]) == ("end", True)
    assert end["home"] == str(shows.folder / "home")
    ending = end["ending"]
    assert 0 < ending["detect_s"] < DEMO_S_MAX
    assert 0 < ending["repair_s"] < ending["proof_s"] < DEMO_S_MAX
    assert ending["chain_whole"] is True
    assert ending["load"]["ok"] > 0


@pytest.mark.slow
def test_a_home_with_a_past_tells_the_story_of_today(shows: Shows) -> None:
    ending = shows.events[-1]["ending"]
    assert ending["ticket"]["id"] == 2
    assert ending["ticket"]["target"] == ending["target"] != "node-9"
    assert [event["event"] for event in shows.events].count("ticket_resolved") == 1


@pytest.mark.slow
def test_on_a_terminal_it_is_coloured_and_leaves_the_terminal_as_it_was(shows: Shows) -> None:
    shown = shows.terminal.shown
    assert shows.terminal_code == 0
    assert f"{ESCAPE}[36m" in shown, "the steps have a colour"
    assert "The ticket was resolved with a proof." in shown
    assert shown.rfind(f"{ESCAPE}[?25h") > shown.rfind(f"{ESCAPE}[?25l"), "the cursor is there"
    assert shows.terminal.attributes() == shows.terminal.before


def test_it_leaves_no_process_and_does_not_touch_the_users_own_state(piped: Piped) -> None:
    _left_nothing_else(piped.folder)


@pytest.mark.slow
def test_neither_does_a_demo_that_is_shown_in_another_way(shows: Shows) -> None:
    _left_nothing_else(shows.folder)


def _left_nothing_else(folder: Path) -> None:
    """There is one new home, and nothing beside the record in it."""
    assert processes_of(folder) == {}
    assert not (folder / "state").exists()
    (home,) = (folder / "tmp").iterdir()
    assert (home / "operator.db").is_file()
    assert list((home / "lab").iterdir()) == []


@pytest.mark.parametrize(
    "words", [("demo", "nosuch"), ("demo", "--fault", "nosuch"), ("demo", "--mode", "banana")]
)
def test_a_demo_that_cannot_begin_leaves_nothing(
    warm: Warm, tmp_path: Path, words: tuple[str, ...]
) -> None:
    environ = {**os.environ, **_environ(tmp_path)}
    done = warm.run(*words, cwd=tmp_path, environ=environ)
    assert done.code == 2
    assert done.err.startswith("operator: ")
    assert list((tmp_path / "tmp").iterdir()) == []
