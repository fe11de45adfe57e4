"""What a command says is heard while it runs, without secrets, and harms no terminal."""

from __future__ import annotations

import io
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from operator_protocols.domain.action import TIMEOUT_S_MAX
from operator_protocols.domain.entry import Kind
from operator_sre.faces.cli.exec import SECONDS_MAX
from operator_sre.faces.cli.progress import Screen, harmless
from tests.e2e.home import Home, run_operator
from tests.e2e.waiting import eventually

READ_BYTES = 65_536
ANSWER_S_MAX = 60.0
EVERYTHING = "version: 1\napproval: {low: auto, medium: auto, high: auto}\n"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (b"plain\ttext\n", "plain\ttext\n"),
        ("gr\u00fc\u00df dich \u2713\n".encode(), "gr\u00fc\u00df dich \u2713\n"),
        (
            b"\x1b[2J\x1b[31mred\x1b]0;title\x07\x1bc",
            "\\x1b[2J\\x1b[31mred\\x1b]0;title\\x07\\x1bc",
        ),
        (b"one\r\ntwo\rthree\x08\x7f\x00", "one\ntwo\\rthree\\x08\\x7f\\x00"),
        ("\x9b31m \u202eevil\u2066 \u2028".encode(), "\\x9b31m \\u202eevil\\u2066 \\u2028"),
        (b"\xff\xfe\xc3(", "\\xff\\xfe\\xc3("),
    ],
)
def test_a_terminal_is_told_nothing_that_it_would_obey(said: bytes, shown: str) -> None:
    assert harmless(said) == shown


def test_no_byte_at_all_gets_through_as_a_command() -> None:
    every = bytes(range(256)) + "".join(map(chr, range(0x80, 0x3000))).encode()
    assert all(one.isprintable() or one in "\n\t" for one in harmless(every))


class _Closed(io.BytesIO):
    """A pipe whose reader went away."""

    def write(self, data: object) -> int:
        raise BrokenPipeError


def _streams(monkeypatch: pytest.MonkeyPatch) -> tuple[io.BytesIO, io.BytesIO]:
    raw = (io.BytesIO(), io.BytesIO())
    for name, stream in zip(("stdout", "stderr"), raw, strict=True):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(stream, "utf-8"))
    return raw


def test_programs_get_the_bytes_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = _streams(monkeypatch)
    screen = Screen(lambda: None)
    assert screen.show(1, b"\x1b[31m\xff\x00\r\n")
    assert screen.show(2, b"no end of line")
    screen.say("It failed.")
    assert out.getvalue() == b"\x1b[31m\xff\x00\r\n"
    assert err.getvalue() == b"no end of line\noperator: It failed.\n"
    assert screen.heard == {1, 2}


def test_what_we_say_ourselves_is_not_what_was_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    _, err = _streams(monkeypatch)
    screen = Screen(lambda: None)
    screen.say("a warning \x1b[31m")
    assert screen.heard == set()
    assert err.getvalue() == b"operator: a warning \\x1b[31m\n"


def test_nothing_is_shown_after_it_was_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = _streams(monkeypatch)
    screen = Screen(lambda: None)
    screen.stop()
    assert not screen.show(1, b"more\n")
    screen.say("Cancelled.")
    assert (out.getvalue(), err.getvalue()) == (b"", b"operator: Cancelled.\n")


def test_a_reader_that_goes_away_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _, err = _streams(monkeypatch)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(_Closed(), "utf-8"))
    gone: list[bool] = []
    screen = Screen(lambda: gone.append(True))
    assert not screen.show(1, b"one\n")
    assert not screen.show(1, b"two\n")
    assert screen.show(2, b"three\n")
    assert (gone, err.getvalue()) == ([True], b"three\n")


def test_nobody_can_ask_for_more_time_than_there_is() -> None:
    assert SECONDS_MAX == TIMEOUT_S_MAX


class _Terminal:
    """The command at a terminal of its own."""

    def __init__(self, home: Home, *words: str) -> None:
        self._mine, theirs = pty.openpty()
        self.popen = home.fork_on(theirs, *words)
        os.close(theirs)
        self.seen = b""

    def read(self) -> bool:
        """Whether there was more to see."""
        ready, _, _ = select.select([self._mine], [], [], ANSWER_S_MAX)
        assert ready, f"it says nothing any more: {self.seen[-200:]!r}"
        try:
            data = os.read(self._mine, READ_BYTES)
        except OSError:  # so a terminal ends on Linux
            return False
        self.seen += data
        return bool(data)

    def until(self, text: bytes) -> None:
        """Read until this is to be seen."""
        while text not in self.seen:
            assert self.read(), self.seen[-200:]

    def rest(self) -> int:
        """Read on to the end; the exit code."""
        while self.read():
            pass
        return self.popen.wait(ANSWER_S_MAX)

    def close(self) -> None:
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
            self.popen.wait(ANSWER_S_MAX)
        os.close(self._mine)


@contextmanager
def _at_terminal(home: Home, *words: str) -> Iterator[_Terminal]:
    terminal = _Terminal(home, "exec", *words)
    try:
        yield terminal
    finally:
        terminal.close()


def _allow(home: Home) -> None:
    home.path.mkdir(exist_ok=True)
    (home.path / "policy.yaml").write_text(EVERYTHING)


def test_a_line_is_seen_before_the_command_ends(home: Home) -> None:
    _allow(home)
    waits = "echo first; until [ -e go ]; do sleep 0.05; done; echo last"
    with _at_terminal(home, waits, "--mode", "execute") as terminal:
        terminal.until(b"first\r\n")
        assert b"last" not in terminal.seen
        (home.cwd / "go").touch()
        assert terminal.rest() == 0
    assert terminal.seen == b"first\r\nlast\r\n"


def test_escape_sequences_do_not_reach_a_terminal(home: Home) -> None:
    evil = r"printf '\033[2J\033]0;t\007 \302\233 \377\nend'; exit 3"
    with _at_terminal(home, evil) as terminal:
        assert terminal.rest() == 3
    assert terminal.seen.split(b"\r\n") == [
        rb"\x1b[2J\x1b]0;t\x07 \x9b \xff",
        b"end",
        b"operator: The command failed: exit code 3 [runtime].",
        b"",
    ]


def test_ctrl_c_ends_a_flood_at_once(home: Home) -> None:
    _allow(home)
    with _at_terminal(home, "yes", "--mode", "execute") as terminal:
        terminal.until(b"y\r\ny\r\n")
        terminal.popen.send_signal(signal.SIGINT)
        assert terminal.rest() == 130
    assert terminal.seen.endswith(
        b"operator: Cancelled: the command was stopped and may have partly run.\r\n"
    )
    (ended,) = home.entries(Kind.TOOL_RESULT)
    assert ended.payload["result"]["outcome"] == "cancelled"


def test_a_flood_that_nobody_reads_is_ended(home: Home) -> None:
    _allow(home)
    line = home.line("exec", "yes", "--mode", "execute")
    with subprocess.Popen(
        line, cwd=home.cwd, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as popen:
        assert popen.stdout is not None
        assert popen.stdout.read(4) == b"y\ny\n"
        popen.stdout.close()
        assert popen.wait(ANSWER_S_MAX) == 1
    (ended,) = home.entries(Kind.TOOL_RESULT)
    assert ended.payload["result"]["outcome"] == "cancelled"


def _runs(*words: str) -> bool:
    """Whether a process of this machine was started with these words."""
    wanted = b"".join(word.encode() + b"\0" for word in words)
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if place.read_bytes() == wanted:
                return True
    return False


def test_what_had_ended_is_not_called_cancelled_for_its_reader(home: Home) -> None:
    line = home.line("exec", "seq 100007")
    with subprocess.Popen(
        line, cwd=home.cwd, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as popen:
        assert popen.stdout is not None
        assert popen.stdout.read(4) == b"1\n2\n"
        eventually(lambda: not _runs("seq", "100007"), "the end of the command")
        popen.stdout.close()
        assert popen.wait(ANSWER_S_MAX) == 0
    (ended,) = home.entries(Kind.TOOL_RESULT)
    assert ended.payload["result"]["outcome"] == "ran"


def test_a_key_over_many_lines_is_never_seen_in_parts(home: Home) -> None:
    body = "\n".join(f"{'MIIEvQIBADANBgkqhkiG9w0BAQEFAASC' * 2}" for _ in range(20))
    kind = "RSA PRIVATE KEY"
    (home.cwd / "text").write_text(f"a\n-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\nb\n")
    slowly = "while IFS= read -r line; do printf '%s\\n' \"$line\"; done < text"
    _allow(home)
    done = home.run("exec", slowly, "--mode", "execute")
    assert done.code == 0, done
    assert "MIIEvQ" not in done.out
    assert "[REDACTED:" in done.out
    assert (done.out.startswith("a\n"), done.out.endswith("b\n")) == (True, True)


def test_a_warning_comes_before_python_without_an_environment(home: Home) -> None:
    (home.cwd / ".venv").mkdir()
    (home.cwd / ".venv" / "pyvenv.cfg").touch()
    line = ("exec", "python3 nosuch.py", "--mode", "observe")
    says = f"add: --venv {home.cwd}/.venv"
    done = home.run(*line, VIRTUAL_ENV="")
    assert done.err.startswith("operator: 'python3' runs without a virtual environment.")
    assert says in done.err
    (told,) = home.run(*line, "--json", VIRTUAL_ENV="").json["warnings"]
    assert says in told
    assert says in home.run(*line, "--dry-run", VIRTUAL_ENV="").out
    assert home.run("exec", "uptime", "--json").json["warnings"] == []


def test_words_behind_two_dashes_are_one_command(home: Home) -> None:
    (home.cwd / "a b").touch()
    line = ("exec", "--json", "--home", str(home.path), "--", "ls", "-1", "a b")
    done = run_operator(*line, cwd=home.cwd)
    assert (done.json["stdout"], done.json["command"]) == ("a b\n", "ls -1 'a b'")


def test_what_is_left_running_is_told_with_its_pid(home: Home) -> None:
    _allow(home)
    line = ("exec", "sleep 300 & echo $!", "--mode", "execute")
    done = home.run(*line)
    pid = int(done.out)
    try:
        assert done.err == f"operator: Still running after the command: sleep (pid {pid}).\n"
    finally:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not Path(f"/proc/{pid}").exists(), "it is gone")
