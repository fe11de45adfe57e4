"""The documentation site: its links, its navigation, and a search that needs no network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pages
from pages import PagesError, navigation, on_site, rewrite
from tests.engines.chromium import running_chromium
from tests.every import every
from tests.tidy.sources import texts

_FOREIGN = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^\s>]*")


@every(
    ("path", "text", "expected"),
    [
        ("README.md", "[a](docs/gate.md#x)", "[a](gate.md#x)"),
        ("docs/gate.md", "[a](trust.md) [b](#c)", "[a](trust.md) [b](#c)"),
        ("docs/subjects/etcd.md", "[a](../install.md)", "[a](../install.md)"),
        ("docs/subjects/etcd.md", "[a](../../README.md)", "[a](../index.md)"),
        ("docs/gate.md", "[a](../ARCHITECTURE.md)", "[a](architecture.md)"),
        ("docs/gate.md", "[a](../Makefile)", "a (`Makefile`)"),
        ("README.md", "![a](docs/journey.svg)", "![a](journey.svg)"),
        ("README.md", "[a](https://cel.dev)", "[a](https://cel.dev)"),
        ("README.md", "```\n[a](nowhere)\n```", "```\n[a](nowhere)\n```"),
        ("README.md", "```sh pip\na\n```", '```sh title="pip"\na\n```'),
        ("README.md", "```sh background\na\n```", "```sh\na\n```"),
    ],
)
def test_a_link_leads_to_the_same_page_in_the_site(path: str, text: str, expected: str) -> None:
    assert rewrite(text, path) == expected


def test_a_link_to_nothing_is_an_error() -> None:
    with pytest.raises(PagesError, match=r"nowhere\.md"):
        rewrite("[a](nowhere.md)", "docs/gate.md")


def test_every_page_is_in_the_navigation() -> None:
    front = texts()["README.md"]
    listed = {
        place
        for section in navigation(front)
        for entries in section.values()
        if isinstance(entries, list)
        for entry in entries
        for place in entry.values()
    }
    ours = {on_site(path) for path in texts() if path.startswith("docs/") and path.endswith(".md")}
    assert ours <= listed
    with pytest.raises(PagesError, match="no table"):
        navigation("# Operator\n")


def test_only_a_site_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(PagesError, match="has other files"):
        pages.build(tmp_path)
    assert (tmp_path / "mine.txt").exists()


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(600)
def test_the_site_is_searched_in_a_browser_without_a_server(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    pytest.importorskip("material", reason="what builds the site is missing: run `make docs`")
    count = pages.build(tmp_path)
    built = list(tmp_path.rglob("*.html"))
    assert len(built) >= count > 40
    for page in built:
        assert _FOREIGN.findall(page.read_text()) == [], page
    with running_chromium(pytestconfig) as browser:
        shown = browser.new_context(offline=True).new_page()
        shown.goto((tmp_path / "index.html").as_uri())
        shown.fill("input.md-search__input", "kill switch")
        found = shown.locator(".md-search-result__link").first
        found.wait_for(state="attached")
        assert "glossary.html" in shown.content()
