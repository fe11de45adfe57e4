"""A report in a file: all of it or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_protocols.errors import UsageError
from operator_sre.app.reports import write_report


def test_what_was_there_is_replaced_and_a_link_leads_to_it(tmp_path: Path) -> None:
    real, link = tmp_path / "real.md", tmp_path / "link.md"
    real.write_text("old")
    link.symlink_to(real)
    write_report(link, "new \udcff\n")
    assert link.is_symlink()
    assert real.read_bytes() == b"new \\udcff\n"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["link.md", "real.md"]


def test_what_cannot_be_written_leaves_all_as_it_was(tmp_path: Path) -> None:
    for file in (tmp_path, tmp_path / "no" / "such", Path("a\x00b"), Path("x" * 300)):
        with pytest.raises(UsageError, match="cannot be written"):
            write_report(file, "new")
    assert list(tmp_path.iterdir()) == []
