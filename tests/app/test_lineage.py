"""Who started a process, told by a process table that the test writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_protocols.domain.action import MARK
from operator_sre.app import persons
from operator_sre.app.persons import RUNNER, is_started_by_runner
from operator_sre.processes.runner import daemon

PYTHON = b"python\0-P\0-m\0"


def _process(
    proc: Path,
    name: str,
    parent: int,
    born: int,
    *,
    line: bytes = b"bash\0",
    variables: bytes = b"",
) -> None:
    folder = proc / name
    folder.mkdir(parents=True)
    middle = " ".join(["0"] * 17)
    (folder / "stat").write_text(f"7 (a) b (c) S {parent} {middle} {born} 0 0\n")
    (folder / "cmdline").write_bytes(line)
    (folder / "environ").write_bytes(variables)


def _chain(proc: Path, **runner: bytes) -> Path:
    _process(proc, "self", 30, 400)
    _process(proc, "30", 20, 300)
    _process(proc, "20", 1, 200, **runner)
    _process(proc, "1", 0, 1, line=b"init\0")
    return proc


def test_the_runner_is_known_by_the_name_of_its_module() -> None:
    assert daemon.__name__ == RUNNER


def test_a_person_has_no_runner_above(tmp_path: Path) -> None:
    assert not is_started_by_runner(_chain(tmp_path))


@pytest.mark.parametrize(
    ("line", "variables"),
    [(PYTHON + RUNNER.encode() + b"\0/home\0", b""), (b"sh\0", b"A=1\0" + MARK.encode() + b"=x\0")],
)
def test_a_runner_or_its_mark_above_makes_it_a_command(
    tmp_path: Path, line: bytes, variables: bytes
) -> None:
    assert is_started_by_runner(_chain(tmp_path, line=line, variables=variables))


@pytest.mark.parametrize(
    ("line", "variables"),
    [(b"grep\0x" + RUNNER.encode() + b"\0", b""), (b"vi\0", b"X=" + MARK.encode() + b"=\0")],
)
def test_what_only_looks_like_a_sign_is_none(tmp_path: Path, line: bytes, variables: bytes) -> None:
    assert not is_started_by_runner(_chain(tmp_path, line=line, variables=variables))


def test_a_hidden_ancestor_belongs_to_another_user(tmp_path: Path) -> None:
    _process(tmp_path, "self", 30, 400)
    assert not is_started_by_runner(tmp_path)


def test_without_a_process_table_nothing_is_known(tmp_path: Path) -> None:
    assert not is_started_by_runner(tmp_path / "none")


def test_a_number_that_another_process_got_is_no_parent(tmp_path: Path) -> None:
    _process(tmp_path, "self", 30, 400)
    _process(tmp_path, "30", 1, 500)
    assert is_started_by_runner(tmp_path), "a chain that cannot be read is not trusted"


def test_a_parent_that_ends_meanwhile_is_looked_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc = _chain(tmp_path, line=PYTHON + RUNNER.encode() + b"\0/home\0")
    stat, left = persons._stat, ["30"]

    def ends(process: Path) -> tuple[int, int] | None:
        if left and process.name == left[0]:
            left.clear()
            (proc / "self" / "stat").write_text(
                (proc / "self" / "stat").read_text().replace("S 30 ", "S 20 ")
            )
            (proc / "30" / "stat").unlink()
        return stat(process)

    monkeypatch.setattr(persons, "_stat", ends)
    assert is_started_by_runner(proc)
