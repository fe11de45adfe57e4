"""The risks of what may be done to a rate limiter."""

from __future__ import annotations

import tomllib
from importlib.resources import files


def test_a_limit_is_a_high_risk() -> None:
    text = (files("operator_sre.subjects.ratelimiter") / "tools.toml").read_text()
    risks = {name: tool["risk"] for name, tool in tomllib.loads(text)["tools"].items()}
    assert risks["update_limit"] == "high"
    assert risks["reset_counter"] == "medium"
