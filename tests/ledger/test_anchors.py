"""Anchors are added and never lost, and a broken file of them is named by its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_protocols.errors import UsageError
from operator_sre.ledger import Anchor
from operator_sre.ledger.verify import add_anchor, anchor_line, read_anchors


def test_anchors_come_back_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "anchors"
    for seq in (3, 9):
        add_anchor(path, anchor_line(Anchor(seq, f"{seq:064}"), at="now", key="k"))
    assert list(read_anchors(path)) == [Anchor(3, f"{3:064}"), Anchor(9, f"{9:064}")]


def test_a_line_that_is_no_anchor_is_named(tmp_path: Path) -> None:
    path = tmp_path / "anchors"
    add_anchor(path, anchor_line(Anchor(3, "a"), at="now", key="k"))
    add_anchor(path, "{}")
    with pytest.raises(UsageError, match="Line 2"):
        read_anchors(path)


def test_a_missing_file_is_told_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_anchors(tmp_path / "none")
