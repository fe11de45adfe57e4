"""`operator config trust`, and what is refused without it."""

from __future__ import annotations

import os

from operator_protocols.domain.entry import Kind
from tests.e2e.home import Home
from tests.e2e.warm import Warm


def test_the_command_line_refuses_and_names_the_command(home: Home, warm: Warm) -> None:
    inside = home.cwd / "inside"
    inside.mkdir()
    line = ("tickets", "list", "--home", str(home.path))
    (home.cwd / "operator.toml").write_text('mode = "execute"\n')
    assert home.run("tickets", "list").code == 0
    refused = warm.run(*line, cwd=inside, environ=os.environ)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert f"operator config trust {home.cwd / 'operator.toml'}" in refused.err
    trusted = home.run("config", "trust", str(home.cwd / "operator.toml"), "--json")
    assert trusted.code == 0
    assert "without approval" in trusted.json["trusted"]["reasons"][0]
    assert warm.run(*line, cwd=inside, environ=os.environ).code == 0
    assert [one.kind for one in home.entries(Kind.CONFIG_TRUSTED)] == [Kind.CONFIG_TRUSTED]
    assert home.run("config", "trust", str(inside / "operator.toml")).code == 2
