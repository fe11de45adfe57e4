"""The line itself: options at any place, pipes that close early, and text that bites."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.home import OPERATOR, Home
from tests.e2e.waiting import eventually
from tests.e2e.warm import Warm

BITES = "\x1b[31m\x07\x9b5m"


@pytest.mark.parametrize(
    "line",
    [
        "--home H --mode approve config show --json",
        "config --home H --mode approve show --json",
        "config show --home H --json --mode approve",
        "config show --json --mode=approve --home=H",
        "--mode observe config show --json --home X --mode approve --home H",
    ],
)
def test_global_options_work_at_any_place_on_the_line(
    warm: Warm, tmp_path: Path, line: str
) -> None:
    document = warm.run(*line.split(), cwd=tmp_path, environ=os.environ).json
    found = {one["name"]: (one["value"], one["source"]) for one in document["settings"]}
    assert found["home"] == (str(tmp_path / "H"), "flag")
    assert found["mode"] == ("approve", "flag")


def test_words_behind_two_dashes_are_no_options_of_ours(warm: Warm, tmp_path: Path) -> None:
    words = ("gate", "check", "--json", "--", "--home")
    done = warm.run(*words, cwd=tmp_path, environ=os.environ)
    assert (done.code, done.json["command"]) == (4, "--home")


@pytest.mark.parametrize("words", [("config", "show"), ("gate", "check", "rm -rf /"), ("--help",)])
def test_a_reader_that_leaves_early_sees_no_traceback_and_no_success(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    with subprocess.Popen(
        [OPERATOR, *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_the_first_line_can_be_taken_alone(tmp_path: Path) -> None:
    line = f"set -o pipefail; {OPERATOR} config show | head -n 1"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, check=False)
    assert done.stdout.startswith(b"SETTING")
    assert (done.stdout.count(b"\n"), done.stderr) == (1, b"")


def test_help_loads_neither_a_client_nor_a_server_nor_a_screen(tmp_path: Path) -> None:
    code = (
        "import json, sys\n"
        "from operator_sre.faces.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}
    heavy = {"anthropic", "fastapi", "httpx2", "rich", "starlette", "textual", "uvicorn", "valkey"}
    assert loaded & heavy == set()


def test_ctrl_c_while_it_loads_ends_it_without_a_word(tmp_path: Path) -> None:
    code = """if True:
        import importlib.abc, os, signal, sys
        from operator_sre.__main__ import main

        class Pressed(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name == "operator_sre.faces.cli.options":
                    os.kill(os.getpid(), signal.SIGINT)

        sys.meta_path.insert(0, Pressed())
        main()
    """
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_names_from_outside_cannot_command_the_terminal(
    home: Home, free_port: Callable[[], int]
) -> None:
    name = json.dumps(f"a{BITES}")
    target = f"{{name = {name}, kind = 'node', port = {free_port()}}}"
    toml = f"[subjects.{name}]\nplugin = 'ratelimiter'\ntargets = [{target}]\n"
    (home.cwd / "operator.toml").write_text(toml)
    monitor = home.fork("monitor", "run", "--interval-s", "0.2")
    eventually(home.tickets, "a ticket about it")
    monitor.end()
    said = [
        home.run("tickets", "list"),
        home.run("tickets", "show", "1"),
        home.run("tickets", "show", "1", "--json"),
        home.run("config", "show"),
        home.run("config", "show", "--json"),
        home.run("monitor", "run", "--subject", "other"),
        home.run("monitor", "run", "--subject", f"b{BITES}"),
    ]
    assert [done.code for done in said] == [0, 0, 0, 0, 0, 2, 2]
    for text in [monitor.said, *(done.out + done.err for done in said)]:
        assert [letter for letter in text if not letter.isprintable() and letter != "\n"] == []
    assert "a\\x1b[31m\\x07\\x9b5m" in said[0].out, "what it hides is shown instead"


def test_a_home_that_is_not_text_is_shown_all_the_same(warm: Warm, tmp_path: Path) -> None:
    home = os.fsdecode(bytes(tmp_path) + b"/caf\xe9")
    for flags in ((), ("--json",)):
        words = ("config", "show", "--home", home, *flags)
        done = warm.run(*words, cwd=tmp_path, environ=os.environ)
        assert done.code == 0
        assert "caf\\udce9" in done.out
