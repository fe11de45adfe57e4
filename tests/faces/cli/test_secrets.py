"""Secrets, projects and the doctor as a person meets them on the command line."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Kind
from tests.app.home import SUBJECTS
from tests.e2e.home import OPERATOR, PACE, Home
from tests.faces.cli.sentences import Bad, one_sentence

VALUE = "kanarienvogel im Bergwerk 41"


@pytest.fixture
def shop(home: Home) -> Home:
    """A home with one configured subject."""
    (home.cwd / "operator.toml").write_text(f'secrets_in = "file"\n{SUBJECTS}')
    return home


def keep(home: Home, name: str, value: str) -> subprocess.CompletedProcess[str]:
    """Set a secret as a script does it: by stdin."""
    line = [str(OPERATOR), "secrets", "set", name, "--home", str(home.path), "--json"]
    environ = {**os.environ, **PACE}
    return subprocess.run(
        line, cwd=home.cwd, env=environ, input=value, capture_output=True, text=True, check=False
    )


def test_a_secret_is_set_bound_listed_unbound_and_removed_unseen(shop: Home) -> None:
    done = keep(shop, "db", f"{VALUE}\n")
    assert done.returncode == 0, done
    said = [done.stdout + done.stderr]
    asked = shop.run("secrets", "bind", "db", "--to", "subject:shop", "--json")
    assert (asked.code, asked.json["credential_ids"]) == (4, ["db"])
    assert asked.json["affected_destinations"] == ["subject:shop"]
    shown = shop.run("confirmations", "show", asked.json["confirmation_id"])
    assert shop.run("confirmations", "approve", asked.json["confirmation_id"]).code == 0
    listed = shop.run("secrets", "list")
    assert "subject:shop" in listed.out
    tested = shop.run("secrets", "test", "db")
    assert tested.code == 1, "nothing listens where the subject should be"
    leased = shop.run("secrets", "lease", "db", "--command", "true", "--as", "X_KEY", "--json")
    assert (leased.code, leased.json["risk_level"]) == (4, "high")
    unbound = shop.run("secrets", "unbind", "db", "--to", "subject:shop")
    assert unbound.out.splitlines()[-1].endswith("-")
    one_sentence(shop.run("secrets", "remove", "db"), Bad("unasked", 2, "--yes"))
    removed = shop.run("secrets", "remove", "db", "--yes")
    assert removed.out == "removed db\n"
    assert shop.run("secrets", "list").out == "No secrets.\n"
    for one in (asked, shown, listed, tested, leased, unbound, removed):
        said.append(one.out + one.err)
    said += [str(one.payload) for one in shop.entries(*Kind)]
    assert not any(VALUE in one for one in said)
    deeds = [one.payload["deed"] for one in shop.entries(Kind.SECRET_CHANGED)]
    assert deeds == ["set", "bound", "unbound", "removed"]


def test_a_lease_that_was_confirmed_runs_its_command_once(shop: Home) -> None:
    assert keep(shop, "db", VALUE).returncode == 0
    words = ("secrets", "lease", "db", "--command", "uptime", "--as", "X_KEY", "--for", "20s")
    name = shop.run(*words, "--json").json["confirmation_id"]
    assert shop.entries(Kind.SECRET_LEASED) == []
    assert shop.run("confirmations", "approve", name).code == 0
    other = shop.run(*words[:-1], "30s", "--confirmation", name)
    one_sentence(other, Bad("longer", 3, "another change"))
    done = shop.run(*words, "--confirmation", name, "--mode", "execute")
    assert (done.code, "load average" in done.out) == (0, True), done
    one_sentence(shop.run(*words, "--confirmation", name), Bad("twice", 1, "already used"))
    (record,) = shop.entries(Kind.SECRET_LEASED)
    assert (record.payload["name"], record.payload["seconds"]) == ("db", 20)
    assert not list((shop.path / "leases").glob("*"))


def test_a_value_is_no_argument_and_nothing_is_no_value(shop: Home) -> None:
    assert shop.run("secrets", "set", "db", VALUE).code == 2
    one_sentence(shop.run("secrets", "set", "db"), Bad("nothing", 2, "at least 6 characters"))
    one_sentence(shop.run("secrets", "test", "nowhere"), Bad("none", 2, "operator secrets set"))
    assert shop.run("secrets", "list", "--json").json["secrets"] == []


def test_a_project_is_made_packed_and_installed(shop: Home, tmp_path: Path) -> None:
    made = shop.run("init", "mine")
    assert (made.code, "operator validate" in made.out) == (0, True)
    assert shop.run("validate", "mine").code == 0
    packed = shop.ask("pack", "mine")["packed"]
    assert Path(packed["file"]).name == "mine.operator"
    taken = shop.run("install", "mine.operator")
    one_sentence(taken, Bad("taken", 2, "not overwritten"))
    done = shop.run("install", "mine.operator", "--to", "yours", "--key", packed["key"])
    assert (done.code, shop.run("validate", "yours").code) == (0, 0)
    wrong = shop.run("install", "mine.operator", "--to", "third", "--key", "0" * 64, "--json")
    assert wrong.json["error"]["category"] == "package_verification_failed"
    other = Home(tmp_path / "other", shop._warm)
    other.cwd.mkdir()
    new = other.run("install", packed["file"])
    one_sentence(new, Bad("a new key", 2, "--yes"))
    assert not (other.cwd / "mine").exists()
    assert other.run("install", packed["file"], "--yes").code == 0
    (shop.cwd / "mine" / "x.txt").write_text("password = 'hunter2-Xk29fjQ'\n")
    leak = shop.run("pack", "mine", "--json")
    assert (leak.code, leak.json["error"]["category"]) == (1, "secret_scan_failed")
    assert "x.txt:1" in leak.json["error"]["message"]
    assert "hunter2" not in leak.out


def test_the_doctor_answers_people_and_programs(shop: Home) -> None:
    told = shop.run("doctor", "--json")
    assert told.json["healthy"] is (told.code == 0)
    assert {"name", "state", "found", "fix"} == set(told.json["findings"][0])
    assert "python" in shop.run("doctor").out
