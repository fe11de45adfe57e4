"""Manners of the command line: quiet, colours, completion, progress, a true reference."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from operator_sre.faces.cli.contents import NOUNS, SENTENCES
from operator_sre.faces.cli.output import hush, is_quiet
from operator_sre.faces.cli.progress import progress, waiting
from operator_sre.faces.cli.story import STYLES, Painter
from tests.e2e.home import OPERATOR, PACE
from tests.e2e.terminal import Terminal
from tests.e2e.warm import Warm
from tests.faces.cli.tree import global_options, own_sentences, verbs
from tests.faces.reference import CONTENTS, DOCUMENT, FIRST, contents, reference

COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7]m")


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for one in opened:
        one.close()


def test_the_reference_is_what_the_commands_are() -> None:
    _, _, told = DOCUMENT.read_text().partition(FIRST)
    assert told == reference(verbs()), "make it anew with: python -m tests.faces.reference"


def test_the_help_lists_every_noun_with_its_own_sentence(warm: Warm, tmp_path: Path) -> None:
    assert own_sentences() == SENTENCES, "make it anew with: python -m tests.faces.reference"
    assert contents(SENTENCES) == CONTENTS.read_text()
    shown = warm.run("--help", cwd=tmp_path, environ=os.environ).out
    assert re.findall(r"(?m)^  ([a-z][a-z-]+)  +[A-Z]", shown) == list(NOUNS)


def test_quiet_tells_people_nothing_but_errors(warm: Warm, tmp_path: Path) -> None:
    def run(*words: str) -> tuple[int, str, str]:
        environ = {**os.environ, "OPERATOR_HOME": str(tmp_path / "home")}
        done = warm.run(*words, cwd=tmp_path, environ=environ)
        return done.code, done.out, done.err

    assert "--quiet" in [one.option for one in global_options()]
    assert run("health", "--quiet") == (1, "", "")
    assert run("--quiet", "tickets", "list") == (0, "", "")
    assert run("gate", "check", "rm -rf /", "--quiet") == (3, "", "")
    code, out, err = run("tickets", "show", "9", "--quiet")
    assert (code, out) == (2, "")
    assert "no ticket 9" in err
    code, out, _ = run("tickets", "list", "--json", "--quiet")
    assert code == 0
    assert '"tickets": []' in out, "a document that was asked for is given"


def test_quiet_is_of_one_call_only(capsys: pytest.CaptureFixture[str]) -> None:
    hush(quiet=True)
    assert is_quiet()
    Painter().line("12:00  ", "watch  ", "nothing", STYLES["good"])
    assert capsys.readouterr().out == ""
    hush(quiet=False)
    Painter().line("12:00  ", "watch  ", "all is well", STYLES["good"])
    assert capsys.readouterr().out == "12:00  watch  all is well\n"


def _subject(folder: Path, port: int) -> None:
    target = f"{{name = 'node-1', kind = 'node', port = {port}}}"
    toml = f"[subjects.shop]\nplugin = 'ratelimiter'\ntargets = [{target}]\n"
    (folder / "operator.toml").write_text(toml)


def _up(folder: Path, *flags: str, **environ: str) -> Terminal:
    words = [str(OPERATOR), "up", "--home", str(folder / "home"), *flags]
    return Terminal(words, cwd=folder, environ={**PACE, **environ})


def test_a_terminal_is_told_the_story_while_it_happens(
    tmp_path: Path, terminals: list[Terminal], free_port: Callable[[], int]
) -> None:
    _subject(tmp_path, free_port())
    plain, coloured, quiet = (
        _up(tmp_path, NO_COLOR="1"),
        _up(tmp_path),
        _up(tmp_path, "--quiet"),
    )
    terminals += [plain, coloured, quiet]
    for told in (
        f"shop is checked every 0.4 s by {os.uname().nodename}:{plain.pid}",
        "shop: mode observe, proposes changes and executes none",
        "tickets are worked on by reasoner",
        "ticket opened: node-1",
    ):
        plain.shows(told)
    coloured.shows("ticket opened: node-1")
    for one in terminals:
        one.signal(signal.SIGTERM)
        assert one.ended() == 128 + signal.SIGTERM
    assert not COLOUR.search(plain.shown)
    assert COLOUR.search(coloured.shown)
    assert "INFO" not in plain.shown + coloured.shown, "nothing is said twice"
    assert quiet.shown == ""
    assert re.search(r"\d\d:\d\d:\d\d  file +#\d+ ticket opened", plain.shown)


def test_a_pipe_gets_log_lines_and_no_story(warm: Warm, tmp_path: Path) -> None:
    done = warm.run("up", cwd=tmp_path, environ={**os.environ, "OPERATOR_HOME": str(tmp_path)})
    assert (done.code, done.out) == (2, "")


SLOW = """
import pathlib, time
from operator_sre.faces.cli.progress import progress, waiting
with progress("checked") as tell:
    tell(41)
    while not pathlib.Path("shown").exists():
        time.sleep(0.01)
print("over")
"""


def test_what_takes_long_shows_how_far_it_is_and_leaves_no_trace(
    tmp_path: Path, terminals: list[Terminal]
) -> None:
    shown = Terminal([sys.executable, "-c", SLOW], cwd=tmp_path, environ={})
    terminals.append(shown)
    shown.shows("41 entries checked")
    (tmp_path / "shown").touch()
    assert shown.ended() == 0
    assert shown.shown.endswith("\r\x1b[Kover\r\n")


def test_programs_see_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("checked") as tell, waiting("checking"):
        tell(41)
    assert capsys.readouterr() == ("", "")


def test_what_waits_for_others_says_for_what_and_quiet_or_piped_it_does_not(
    tmp_path: Path, terminals: list[Terminal]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = f"{{name = 'node-1', kind = 'node', port = {silent.getsockname()[1]}}}"
        toml = f"[subjects.shop]\nplugin = 'ratelimiter'\ntargets = [{target}]\n"
        (tmp_path / "operator.toml").write_text(toml)
        words = [str(OPERATOR), "subjects", "observe", "shop", "--home", str(tmp_path / "home")]
        told, quiet = (
            Terminal([*words, *more], cwd=tmp_path, environ={**PACE, "PAGER": "touch paged"})
            for more in ([], ["--quiet"])
        )
        terminals += [told, quiet]
        told.shows("checking, ")
        assert (told.ended(), quiet.ended()) == (0, 0)
    assert not (tmp_path / "paged").exists()
    assert (
        told.shown.rfind("checking, ") < told.shown.rfind("\r\x1b[K") < told.shown.find("shop at")
    )
    assert quiet.shown == ""
