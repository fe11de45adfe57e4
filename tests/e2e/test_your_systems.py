"""docs/your-systems.md does what it says: from nothing to a true finding, by the commands in it."""

from __future__ import annotations

import re
import shlex
import socket
import sys
from pathlib import Path

from operator_protocols.domain.ticket import TicketState
from tests.e2e.home import Home
from tests.e2e.waiting import eventually

PAGE = Path(__file__).parents[2] / "docs" / "your-systems.md"
_BLOCK = re.compile(r"^```(\S*)( background)?\n(.*?)^```", re.S | re.M)
PORT = "8080"


def test_the_page_takes_a_reader_to_a_true_finding(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = str(held.getsockname()[1])
    blocks = [match.groups() for match in _BLOCK.finditer(PAGE.read_text())]
    lines = [line for language, _, text in blocks if language == "sh" for line in text.splitlines()]
    assert len(lines) == 6
    server, *commands = (shlex.split(line.replace(PORT, port)) for line in lines)
    assert server[0] == "python3"
    shop = home.start_process([sys.executable, *server[1:]])
    eventually(lambda: _listens(port), "the web server listens")

    said: dict[str, str] = {}
    for words in commands:
        assert words[0] == "operator"
        line = words[1:]
        if line[0] == "discover":  # a test leaves the other servers of this machine alone
            line += ["--port", port]
        if line[0] == "up":
            _watch(home, line)
            shop.end()
            home.new_ticket(0, TicketState.ESCALATED)
            continue
        done = home.run(*line)
        assert done.code == 0, done
        said[" ".join(words)] = done.out

    # What the page shows is what is printed, but for times and process numbers.
    shown = [text for language, _, text in blocks if language == ""]
    for text in (shown[1], shown[2], shown[4]):
        (row,) = [line for line in text.splitlines() if f"web-{PORT}" in line and "  " in line]
        printed = "\n".join(said.values())
        assert _plain(row.replace(PORT, port)) in _plain(printed), (row, printed)
    assert _plain(shown[2].replace(PORT, port)) in _plain(printed), "the whole table"
    toml = (home.cwd / "operator.toml").read_text()
    assert toml.startswith('mode = "observe"')
    assert home.run("discover", "--port", port, "--yes").code == 0
    assert (home.cwd / "operator.toml").read_text() == toml, "what is watched is not added again"


def _watch(home: Home, line: list[str]) -> None:
    running = home.fork(*line)
    eventually(lambda: "watching and working" in running.said, "it watches")


def _listens(port: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(port))) == 0


def _plain(text: str) -> str:
    """The words of a text without dates, times, process numbers and the name of Python."""
    text = re.sub(r"\d\d-\d\d \d\d:\d\d:\d\d|pid \d+|python[\d.]*", "*", text)
    return " ".join(text.split())
