"""Completion as a person has it: in a real shell, with Tab."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from operator_sre.faces.cli.completion import completion, script_of
from tests.e2e.terminal import Terminal
from tests.e2e.warm import Warm
from tests.faces.cli.tree import verbs

# What is typed, and what it becomes with Tab.
TYPED = {
    "tick": "tickets",
    "--home /srv/x tickets li": "--home /srv/x tickets list",
    "audit tail --fo": "audit tail --follow",
    "tickets list --qui": "tickets list --quiet",
    "history patterns sh": "history patterns show",
    "store restore back": "store restore backup.db",
}
# The shell as it is started, how it learns a script, and a command that says what it was given.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source", 'operator() { echo "<$*>"; }'),
    "zsh": (
        ["zsh", "-f", "-i"],
        "autoload -Uz compinit && compinit -u -D && source",
        'operator() { echo "<$*>" }',
    ),
}


@pytest.fixture
def open_shell(tmp_path: Path) -> Iterator[Callable[[list[str]], Terminal]]:
    """A shell on a terminal, in a folder with one file."""
    opened: list[Terminal] = []

    def start(words: list[str]) -> Terminal:
        path = shutil.which(words[0])
        if path is None:
            pytest.skip(f"there is no {words[0]} here; install it to have its completion tested")
        environ = {"HOME": str(tmp_path), "PS1": "> ", "INPUTRC": os.devnull}
        opened.append(Terminal([path, *words[1:]], cwd=tmp_path, environ=environ))
        return opened[-1]

    (tmp_path / "backup.db").touch()
    yield start
    for one in opened:
        one.close()


@pytest.mark.parametrize("shell", ["bash", pytest.param("zsh", marks=pytest.mark.system)])
def test_tab_completes_nouns_verbs_options_and_files(
    shell: str, open_shell: Callable[[list[str]], Terminal], warm: Warm, tmp_path: Path
) -> None:
    words, learn, command = SHELLS[shell]
    terminal = open_shell(words)
    script = tmp_path / ".script"
    script.write_text(warm.run("completion", shell, cwd=tmp_path, environ=os.environ).out)
    terminal.type(f"{learn} {script} && {command} && echo rea''dy\n")
    terminal.shows("ready\r\n")
    for typed, whole in TYPED.items():
        terminal.type(f"operator {typed}\t\n")
        terminal.shows(f"<{whole}>")
    terminal.type("exit\n")
    assert terminal.ended() == 0


@pytest.mark.system
def test_fish_offers_nouns_verbs_options_and_files(tmp_path: Path) -> None:
    """It says itself what it would offer; the file that lies there only where one may stand."""
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("there is no fish here; install it to have its completion tested")
    (tmp_path / "script").write_text(script_of("fish"))
    for name in ("backup.db", "shop.db"):
        (tmp_path / name).touch()
    asked = [*TYPED, "history patterns sho", "store restore sh"]
    lines = "; ".join(f"complete -C 'operator {line}'" for line in asked)
    told = subprocess.run(
        [fish, "--no-config", "-c", f"source script; {lines}"],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TERM": "dumb"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert told.stderr == ""
    ends = [whole.split()[-1] for whole in TYPED.values()]
    assert told.stdout.split() == [*ends, "show", "shop.db"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_knows_every_verb(shell: str) -> None:
    assert completion.__name__ == "completion"
    script = script_of(shell)
    quote = "'" if shell == "fish" else '"'
    for verb in verbs():
        assert f"{quote}{verb.line}{quote}" in script
        for one in verb.parameters:
            assert not one.option.startswith("--") or one.option in script
