"""The log file of the service: what it holds, how large it gets, and who may read it."""

from __future__ import annotations

import logging
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_protocols.errors import OperatorError
from operator_sre.faces.cli import log_file
from operator_sre.faces.cli.log_file import log_to_file

LOG = logging.getLogger("operator_sre.tests")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    ours = logging.getLogger("operator_sre")
    handlers, level, propagate = ours.handlers, ours.level, ours.propagate
    ours.setLevel(logging.INFO)
    ours.propagate = False
    yield
    for handler in ours.handlers:
        handler.close()
    ours.handlers, ours.propagate = handlers, propagate
    ours.setLevel(level)


def test_it_is_bounded_and_only_its_account_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(log_file, "FILE_BYTES_MAX", 400)
    file = tmp_path / "operator.log"
    log_to_file(file, style="text")
    for number in range(200):
        LOG.info("line %d of \x1b[31m", number)
    kept = sorted(tmp_path.iterdir())
    assert [each.name for each in kept] == [
        "operator.log",
        *(f"operator.log.{number}" for number in range(1, log_file.OLD_FILES + 1)),
    ]
    for each in kept:
        assert each.stat().st_size <= 400
        assert stat.S_IMODE(each.stat().st_mode) == 0o600
    lines = "".join(each.read_text() for each in reversed(kept)).splitlines()
    numbers = [int(line.split(" line ")[1].split()[0]) for line in lines]
    assert numbers == list(range(numbers[0], 200))
    assert "\x1b" not in file.read_text()
    assert capsys.readouterr().err == ""


def test_another_file_takes_over_and_the_first_one_is_closed(tmp_path: Path) -> None:
    log_to_file(tmp_path / "first.log", style="text")
    (former,) = logging.getLogger("operator_sre").handlers
    log_to_file(tmp_path / "second.log", style="json")
    LOG.info("here")
    assert (tmp_path / "first.log").read_text() == ""
    assert '"message": "here"' in (tmp_path / "second.log").read_text()
    assert isinstance(former, logging.FileHandler)
    assert former.stream is None


def test_what_a_full_disk_refuses_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_file(Path("/dev/full"), style="text")
    LOG.error("the store is gone")
    shown = capsys.readouterr().err
    assert "the store is gone" in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("place", ["missing/operator.log", "link.log", "."])
def test_a_file_that_cannot_be_opened_is_refused_and_the_log_stays(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / "link.log").symlink_to(tmp_path / "elsewhere.log")
    before = list(logging.getLogger("operator_sre").handlers)
    with pytest.raises(OperatorError, match="cannot be opened") as refused:
        log_to_file(tmp_path / place, style="text")
    assert "log_file" in str(refused.value.next_step)
    assert logging.getLogger("operator_sre").handlers == before
    assert not (tmp_path / "elsewhere.log").exists()
