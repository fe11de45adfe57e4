"""`operator packs` as it is typed, and the commands of deployments where nothing is deployed."""

from __future__ import annotations

from tests.e2e.home import Home
from tests.every import every


def test_a_pack_is_listed_shown_and_added(home: Home) -> None:
    names = {pack["name"] for pack in home.ask("packs", "list")["packs"]}
    assert {"nginx", "redis", "web-application"} <= names
    assert "invariants:" in home.run("packs", "show", "nginx").out
    added = home.run("packs", "add", "nginx", "--subject", "edge")
    assert added.code == 0, added.err
    assert any("edge" in path.read_text() for path in home.cwd.rglob("*.yaml"))
    assert home.run("packs", "add", "nginx", "--subject", "edge").code != 0


def test_a_misspelled_pack_names_the_nearest(home: Home) -> None:
    done = home.run("packs", "show", "ngnix")
    assert done.code == 2
    assert "nginx" in done.err


@every(
    "line",
    [
        "deploy local status ratelimiter",
        "deploy local logs ratelimiter",
        "deploy local restart ratelimiter",
    ],
)
def test_a_deployment_that_does_not_exist_is_one_sentence(home: Home, line: str) -> None:
    done = home.run(*line.split())
    assert done.code == 2
    assert done.err.startswith("operator: No project 'operator-ratelimiter'")
    assert done.err.endswith("operator deploy local up ratelimiter\n")
    assert len(done.err.splitlines()) == 1, done.err
