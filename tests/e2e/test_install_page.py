"""docs/install.md does what it says: a new user types its commands in an empty home."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.e2e.install_page import PAGE, ROOT, WAYS, Failure, Line, follow, lines_of, try_way
from tests.every import every
from tests.faces.cli.tree import parse_line

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


@every("way", WAYS)
def test_every_command_of_the_page_is_one_that_exists(way: str) -> None:
    lines = lines_of(PAGE.read_text(), way)
    sections = {line.section for line in lines}
    assert {"Install", "First subject", "Run as a service", "Upgrade", "Uninstall"} <= sections
    ours = [line.command for line in lines if line.command.startswith("operator ")]
    assert len(ours) >= 8
    for command in ours:
        parse_line(shlex.split(command)[1:])
    others = {shlex.split(line.command)[0] for line in lines} - {"operator", "cd"}
    assert others <= {"python3", "operator/bin/pip", "PATH=$HOME/operator/bin:$PATH", "pip", way}


def test_the_first_command_that_fails_is_named_with_what_it_printed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    environ = {**ENVIRONMENT, "HOME": str(tmp_path)}
    wrong = Line("Second", "ls nowhere")
    lines = [Line("First", "cd ."), wrong, Line("Third", "touch reached")]
    with tempfile.TemporaryDirectory() as home:
        failure = follow(lines, Path(home), {**environ, "HOME": home})
        assert failure is not None
        assert failure.line is wrong
        assert (failure.code, "nowhere" in failure.said) == (2, True)
        assert not any(Path(home).iterdir())
        said = 'grep -q ready "$HOME/said"'

        def tried(command: str) -> Failure | None:
            line = Line("Goes on", command, background=True)
            return follow([line], Path(home), {**environ, "HOME": home}, ready=said)

        assert tried("sh -c 'echo ready; exec sleep 60'") is None
        assert tried("sh -c 'trap : TERM; echo ready'") is not None, "it must not end by itself"
        assert tried("sh -c 'echo error; exit 143'") is not None, "it must do its work"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_new_user_follows_the_page_in_each_way() -> None:
    # Not below a directory that only root may enter.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        wheels = folder / "dist"
        subprocess.run([sys.executable, ROOT / ".ci" / "dist.py", wheels], check=True)
        for way in WAYS:
            assert try_way(way, wheels, folder) is None, way
