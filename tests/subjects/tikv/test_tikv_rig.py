"""The rig of TiKV: whose programs it takes, and what it says without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_lab.plan import check_spec
from operator_protocols.errors import MissingProgramError
from operator_sre.subjects.tikv.faults import FAULTS
from operator_sre.subjects.tikv.options import options_from
from operator_sre.subjects.tikv.rig import rig, servers
from tests.engines.tikv.standin import install


def _program(place: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("#!/bin/sh\n")
    place.chmod(0o755)
    return place


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any TiKV, and its home of tiup."""
    home = tmp_path / "tiup"
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("TIUP_HOME", str(home))
    return home


def test_without_the_programs_it_says_which_and_what_to_do(bare: Path) -> None:
    with pytest.raises(MissingProgramError) as caught:
        rig()
    assert "pd-server and tikv-server" in caught.value.message
    assert "tiup install" in caught.value.next_step
    _program(bare / "components" / "pd" / "v8.5.5" / "pd-server")
    with pytest.raises(MissingProgramError) as caught:
        servers()
    assert "needs tikv-server," in caught.value.message


def test_the_newest_of_tiup_is_taken_and_the_path_comes_first(bare: Path, tmp_path: Path) -> None:
    components = bare / "components"
    for version in ("v7.5.10", "v8.5.0-rc.1", "v8.5.0", "v8.10.2", "v8.9.9"):
        _program(components / "pd" / version / "pd-server")
        _program(components / "tikv" / version / "tikv-server")
    _program(components / "pd" / "v9.0.0" / "pd-server").chmod(0o644)
    assert servers() == (
        str(components / "pd" / "v8.10.2" / "pd-server"),
        str(components / "tikv" / "v8.10.2" / "tikv-server"),
    )
    own = _program(tmp_path / "bin" / "tikv-server")
    assert servers()[1] == str(own)


def test_what_it_describes_makes_sense(bare: Path, tmp_path: Path) -> None:
    install(tmp_path / "bin")
    spec = rig()
    check_spec(spec)
    assert [one.kind for one in spec.processes] == ["pd"] * 3 + ["store"] * 3
    assert options_from(spec.options).grace_ratio < 1  # and every name is one
    kinds = {one.kind for one in spec.processes}
    assert {fault.kind for fault in FAULTS} == kinds
