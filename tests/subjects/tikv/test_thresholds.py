"""Every threshold of TiKV is an option, and its default has a reason."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from operator_sre.subjects.tikv.options import Options, options_from

PAGE = (Path(__file__).parents[3] / "docs" / "subjects" / "tikv.md").read_text()


def test_each_threshold_is_a_setting() -> None:
    given = {"p99_ms_max": 100.0, "free_ratio_min": 0.3, "disk_ratio_max": 0.7, "grace_ratio": 2.0}
    options = options_from(given)
    assert {name: getattr(options, name) for name in given} == given
    limits = [field.name for field in fields(Options) if re.search("_(max|min)$", field.name)]
    assert [name for name in limits if f"`{name}`" not in PAGE] == []


def test_the_reasons_name_the_defaults() -> None:
    reasons = PAGE.partition("### Why these thresholds")[2].partition("\n## ")[0]
    options = Options()
    assert f"{options.p99_ms_max:g} ms" in reasons
    assert f"less than {options.free_ratio_min:.0%} free".replace("%", " %") in reasons
    assert f"more than {options.disk_ratio_max:.0%} used".replace("%", " %") in reasons
