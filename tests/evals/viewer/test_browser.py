"""The viewer in a real browser: what is seen, followed and kept, on a desk and on a phone."""

from __future__ import annotations

import asyncio
import threading
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from operator_evals.analysis import analyse, score_trials
from operator_evals.database import open_database
from operator_evals.rendering import report_page
from operator_evals.viewer.server import serve
from operator_sre.app.listeners import Listener
from operator_sre.app.wiring import open_app
from operator_sre.config import load_config
from tests.engines.chromium import running_chromium
from tests.evals.samples import CAMPAIGN, RECORDED, fill, hostile, trials

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WORDS = "<img src=x onerror=document.title='pwned'><script>document.title='pwned'</script>"
PHONE_WIDTH = 375

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def browser(pytestconfig: pytest.Config) -> Iterator[Browser]:
    """Debian's chromium, without a window."""
    with running_chromium(pytestconfig) as found:
        yield found


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a viewer of a home with two campaigns listens."""
    folder = tmp_path_factory.mktemp("browser")
    place = folder / "home" / "eval.db"
    fill(place)
    recorded, facts = hostile(WORDS)
    with open_database(place) as database:
        database.begin(recorded)
        database.keep(facts)
    began, told, ended = threading.Event(), list[str](), list[Any]()

    async def listen() -> None:
        loop = asyncio.get_running_loop()
        ended.append((loop, asyncio.current_task()))
        config = load_config(flags={"home": str(folder / "home")}, environ={}, cwd=folder)
        with open_app(config) as home:

            def ready(where: str) -> None:
                told.append(where)
                began.set()

            await serve(home, Listener("127.0.0.1", 0), database=place, ready=ready)

    def run() -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(listen())

    thread = threading.Thread(target=run)
    thread.start()
    assert began.wait(30)
    yield told[0]
    loop, task = ended[0]
    loop.call_soon_threadsafe(task.cancel)
    thread.join(30)
    assert not thread.is_alive()


def _opened(browser: Browser, place: str, **options: Any) -> tuple[Page, list[str]]:
    """A page, and what the browser complained about."""
    page = browser.new_page(**options)
    complaints: list[str] = []
    page.on("console", lambda one: complaints.append(one.text))
    page.on("pageerror", lambda one: complaints.append(str(one)))
    page.goto(place)
    return page, complaints


def test_from_the_list_to_the_ledger_of_a_trial(browser: Browser, url: str, tmp_path: Path) -> None:
    page, complaints = _opened(browser, url, java_script_enabled=False, accept_downloads=True)
    page.get_by_role("link", name="reference").click()
    assert page.get_by_role("heading", level=1).inner_text() == "Campaign reference"
    first = next(trials())
    row = page.locator("table.heat tr", has_text=first.scenario.name)
    row.get_by_role("link", name="seed 0").first.click()
    assert first.scenario.name in page.get_by_role("heading", level=1).inner_text()
    assert page.locator("figure svg line.fault").count() > 0
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the ledger").click()
    download.value.save_as(tmp_path / "kept")
    with zipfile.ZipFile(tmp_path / "kept") as bundle:
        assert bundle.read("entries.jsonl").decode() == first.key
    page.locator("nav").get_by_role("link", name="reference").click()
    assert page.get_by_role("heading", level=1).inner_text() == "Campaign reference"
    assert complaints == []
    page.close()


@pytest.mark.slow
def test_the_style_is_ours_on_a_phone_and_in_the_dark(browser: Browser, url: str) -> None:
    size = {"width": PHONE_WIDTH, "height": 800}
    key = next(trials()).key
    shades = {}
    for scheme in ("light", "dark"):
        for path in ("/", "/campaign?name=reference", f"/trial?campaign=reference&key={key}"):
            page, complaints = _opened(browser, url + path, viewport=size, color_scheme=scheme)
            width = page.evaluate("document.documentElement.scrollWidth")
            assert (path, width, complaints) == (path, PHONE_WIDTH, [])
            shades[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
            page.close()
    assert shades["light"] == "rgb(255, 255, 255)"
    assert shades["dark"] != shades["light"]


def test_words_of_others_stay_words(browser: Browser, url: str) -> None:
    page, _ = _opened(browser, url)
    page.get_by_role("link", name="<img").click()
    page.locator("a.sign").first.click()
    assert "pwned" not in page.title().partition("<img")[0]
    assert page.locator("script, img").count() == 0
    assert page.locator("pre", has_text="<script>").count() == 1
    page.close()


@pytest.mark.slow
def test_one_file_shows_a_trial_when_its_link_is_followed(browser: Browser, tmp_path: Path) -> None:
    known = score_trials(list(trials()), CAMPAIGN)
    file = tmp_path / "report.html"
    file.write_text(
        report_page(RECORDED, analyse([one.facts for one in known], CAMPAIGN), known), "utf-8"
    )
    page, complaints = _opened(browser, file.as_uri(), java_script_enabled=False)
    assert page.locator("article:visible").count() == 0
    page.locator("a.sign").first.click()
    assert page.locator("article:visible").count() == 1
    assert not page.locator("#campaign").is_visible()
    page.locator("article:visible nav a").click()
    assert page.locator("#campaign").is_visible()
    assert complaints == []
    page.close()
