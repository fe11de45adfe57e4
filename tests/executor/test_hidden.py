"""No confined command reads Operator's own files or anybody's credentials."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_protocols.domain.confinement import Ability, Confinement
from operator_sre.executor import hidden
from operator_sre.executor.hidden import Hidden, bounds_of


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(hidden, "_homes", lambda: [str(tmp_path)])
    return tmp_path


def test_credentials_in_homes_are_found_by_their_patterns(home: Path) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_rsa").write_text("x")
    (home / ".netrc").write_text("x")
    (home / "notes").write_text("x")
    found = Hidden((), lambda: ("/**/.ssh/**", "/**/.netrc", "/**/.pgpass"))()
    assert found == (str(home / ".netrc"), str(home / ".ssh"))


def test_patterns_with_a_root_are_found_there(home: Path) -> None:
    for name in ("one.key", "two.key", "other"):
        (home / name).write_text("x")
    found = Hidden((), lambda: (f"{home}/*.key", "/proc/*/environ", f"{home}/none"))()
    assert found == (str(home / "one.key"), str(home / "two.key"))


def test_our_own_files_are_hidden_even_before_they_are_there(home: Path) -> None:
    own = Hidden((home / "operator", home / "operator" / "ledger.key"), tuple)
    assert own() == (str(home / "operator"),)


def test_what_appears_later_is_found_after_a_while(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Hidden((), lambda: ("/**/.netrc",))
    assert found() == ()
    (home / ".netrc").write_text("x")
    assert found() == ()
    monkeypatch.setattr("operator_sre.executor.hidden.time.monotonic", lambda: 1e12)
    assert found() == (str(home / ".netrc"),)


def test_the_runner_is_told_all_of_a_confinement(home: Path) -> None:
    rigs = home / "lab"
    confinement = Confinement(
        reads=("/var/log/x",),
        writes=(),
        hosts=("db:5432",),
        sockets=("/run/x",),
        programs=("psql",),
        abilities=(Ability.PROCESSES,),
    )
    bounds = bounds_of(confinement, Hidden((home,), tuple, shown=rigs))
    assert (bounds.hidden, bounds.shown) == ((str(home),), (str(rigs),))
    assert (bounds.reads, bounds.writable, bounds.hosts) == (("/var/log/x",), (), ("db:5432",))
    assert (bounds.sockets, bounds.programs) == (("/run/x",), ("psql",))
    assert bounds.abilities == ("processes",)
    assert bounds.resolves
    rig = bounds_of(Confinement(inside="shop", shown=("/x",)), Hidden((home,), tuple, shown=rigs))
    assert (rig.shown, rig.resolves) == (("/x",), False)


def test_what_is_approved_may_read_the_credentials_of_others(home: Path) -> None:
    (home / ".netrc").write_text("x")
    hidden_files = Hidden((home / "operator",), lambda: ("/**/.netrc",))
    approved = bounds_of(Confinement(writes=None, hosts=None), hidden_files)
    assert approved.hidden == (str(home / "operator"),)
    assert approved.writable is None
    question = bounds_of(Confinement(credentials=True), hidden_files)
    assert (question.hidden, question.writable) == (approved.hidden, ())
    assert bounds_of(Confinement(), hidden_files).hidden == (str(home / ".netrc"), *approved.hidden)
