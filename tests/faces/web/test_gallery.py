"""The whole story in a real browser on a real rig, and the pictures of it in the docs."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faces.web.gallery import FOLDER, PICTURES, config_at, incognito, main, story

if TYPE_CHECKING:
    from playwright.async_api import Page

ROOT = Path(__file__).parents[3]
SIZE_BYTES_MAX = 300_000
SHOWN = re.compile(r"!\[([^\]]*)\]\(web/([a-z-]+)\.png\)")


def test_the_docs_show_a_picture_of_every_page_that_can_be_taken_anew() -> None:
    shown = {name: told for told, name in SHOWN.findall((ROOT / "docs" / "web.md").read_text())}
    assert shown == PICTURES
    assert sorted(PICTURES) == sorted(one.stem for one in FOLDER.iterdir())
    for name in PICTURES:
        picture = (FOLDER / f"{name}.png").read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert len(picture) <= SIZE_BYTES_MAX, name
    assert f"-m {main.__module__}" in (ROOT / "Makefile").read_text()


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(900)
@pytest.mark.skipif(not shutil.which("chromium"), reason="there is no chromium")
def test_from_the_fault_to_the_proof_in_a_browser(tmp_path: Path) -> None:
    """A ticket appears on a page that is open, a person says yes there, and it is repaired."""
    seen: list[str] = []

    async def look(page: Page, name: str) -> None:
        seen.append(name)
        wide = await page.evaluate("document.documentElement.scrollWidth")
        assert wide <= page.viewport_size["width"], name  # type: ignore[index]

    with incognito():
        told = asyncio.run(story(config_at(tmp_path), look))
    assert sorted(seen) == sorted(PICTURES)
    assert told.complaints == []
    assert b"<h1" in told.report
