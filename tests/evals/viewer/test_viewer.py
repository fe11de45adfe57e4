"""The viewer over HTTP: every page, every link, and nobody who should not look."""

from __future__ import annotations

import asyncio
import base64
import html
import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from operator_evals.database import open_database
from operator_evals.gallery import Gallery
from operator_evals.viewer.application import application
from operator_protocols.domain.token import Audience, Role
from operator_sre.app import tokens
from operator_sre.app.wiring import App, open_app
from operator_sre.config import load_config
from tests.evals.samples import fill, hostile, trials

HOSTILE = (
    "<script>alert('x')</script>\"><img src=x onerror=alert(1)>{{7*7}}\x1b[31m/../%2e%2e?a=b&c#d"
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """A home with a campaign, and one in which every word is hostile."""
    folder = tmp_path_factory.mktemp("viewer")
    fill(folder / "home" / "eval.db")
    recorded, facts = hostile(HOSTILE)
    with open_database(folder / "home" / "eval.db") as database:
        database.begin(recorded)
        database.keep(facts)
    config = load_config(flags={"home": str(folder / "home")}, environ={}, cwd=folder)
    with open_app(config) as app:
        yield app


def _get(
    home: App,
    path: str,
    *,
    method: str = "GET",
    base: str = "http://localhost",
    headers: dict[str, str] | None = None,
    private: bool = False,
    rate: float = 1e6,
) -> httpx2.Response:
    gallery = Gallery(home.config.home / "eval.db")
    viewer = application(home, gallery, hosts=("ops.example",), rate=rate, private=private)

    async def ask() -> httpx2.Response:
        transport = httpx2.ASGITransport(app=viewer, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url=base) as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(ask())


def _links(page: str) -> list[str]:
    return [html.unescape(one) for one in re.findall(r'href="([^"]*)"', page)]


def test_every_link_leads_to_a_page_and_every_page_is_linked(home: App) -> None:
    """Also in the campaign whose names are hostile."""
    gallery = Gallery(home.config.home / "eval.db")
    viewer = application(home, gallery, rate=1e6)
    wanted, seen = ["/"], dict[str, int]()

    async def crawl() -> None:
        transport = httpx2.ASGITransport(app=viewer, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            while wanted:
                path = wanted.pop()
                answer = await client.get(path)
                seen[path] = answer.status_code
                if answer.headers["content-type"].startswith("text/html"):
                    wanted.extend(one for one in _links(answer.text) if one not in seen)

    asyncio.run(crawl())
    # The ledger of the hostile trial is a name that leads nowhere, and is told so.
    lost = [path for path, status in seen.items() if status != 200]
    assert [one.partition("?")[0] for one in lost] == ["/ledger"]
    kinds = [path.partition("?")[0] for path in seen]
    every = len(list(trials()))
    assert (kinds.count("/campaign"), kinds.count("/trial"), kinds.count("/ledger")) == (
        *(2, every + 1, every + 1),
    )


def test_a_page_is_text_to_a_browser_whatever_was_said(home: App) -> None:
    front = _get(home, "/").text
    campaign = next(one for one in _links(front) if "script" in one)
    page = _get(home, campaign)
    trial = next(one for one in _links(page.text) if one.startswith("/trial"))
    for answer in (page, _get(home, trial), _get(home, f"{campaign}x")):
        assert "<script" not in answer.text
        assert "<img" not in answer.text
        assert "\x1b" not in answer.text
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_ledger_of_a_trial_is_a_file_to_keep(home: App) -> None:
    first = next(trials())
    page = _get(home, f"/trial?campaign=reference&key={first.key}").text
    place = next(one for one in _links(page) if one.startswith("/ledger"))
    answer = _get(home, place)
    with zipfile.ZipFile(io.BytesIO(answer.content)) as bundle:
        assert bundle.read("entries.jsonl").decode() == first.key
    told = answer.headers["content-disposition"]
    assert re.fullmatch(r'attachment; filename="[A-Za-z0-9_-]+\.ledger\.zip"', told)
    for path in ("/ledger", "/ledger/../eval.db", "/ledger?campaign=../..&key=../../etc/passwd"):
        assert _get(home, path).status_code == 404, path
    with open_database(home.config.home / "eval.db") as database:
        database.keep(replace(first, ledger="ledgers/../eval.db"))
    assert _get(home, place).status_code == 404
    with open_database(home.config.home / "eval.db") as database:
        database.keep(first)


def test_what_is_not_here_is_a_page_with_the_way_back(home: App) -> None:
    for path, status in (
        ("/nothing", 404),
        ("/campaign?name=none", 404),
        ("/campaign", 404),
        ("/trial?campaign=reference&key=none", 404),
    ):
        answer = _get(home, path)
        assert answer.status_code == status, path
        assert "/" in _links(answer.text)
        assert "Traceback" not in answer.text
    assert _get(home, "/", method="POST").status_code == 405
    assert _get(home, "/", method="HEAD").status_code == 200


def test_a_page_that_was_led_here_by_another_name_is_told_nothing(home: App) -> None:
    answer = _get(home, "/", base="http://evil.example")
    assert (answer.status_code, "reference" in answer.text) == (421, False)
    assert _get(home, "/", base="http://ops.example").status_code == 200
    assert _get(home, "/", base="http://127.0.0.1:8441").status_code == 200


def test_from_elsewhere_only_a_token_of_this_home_lets_in(home: App) -> None:
    token, secret = asyncio.run(tokens.create(home, "looker", Role.VIEWER, audience=Audience.WEB))
    _, other = asyncio.run(tokens.create(home, "program", Role.ADMIN))

    def status(told: str) -> int:
        headers = {"authorization": told} if told else {}
        return _get(home, "/", headers=headers, private=True).status_code

    def basic(password: str) -> str:
        return f"Basic {base64.b64encode(f'me:{password}'.encode()).decode()}"

    for told in (
        "",
        basic(""),
        basic("x"),
        basic(f"{secret}x"),
        "Basic !",
        "Bearer x",
        basic(other),
    ):
        assert status(told) == 401, told
    assert (status(basic(secret)), status(f"Bearer {secret}")) == (200, 200)
    asyncio.run(tokens.revoke(home, token.id))
    assert status(basic(secret)) == 401


def test_whoever_asks_too_often_waits(home: App) -> None:
    gallery = Gallery(home.config.home / "eval.db")
    viewer = application(home, gallery, rate=1)

    async def ask() -> list[int]:
        transport = httpx2.ASGITransport(app=viewer)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return [(await client.get("/nothing")).status_code for _ in range(4)]

    assert 429 in asyncio.run(ask())


def test_a_home_without_a_campaign_says_how_to_begin(home: App, tmp_path: Path) -> None:
    viewer = application(home, Gallery(tmp_path / "eval.db"))

    async def ask() -> httpx2.Response:
        transport = httpx2.ASGITransport(app=viewer)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get("/")

    answer = asyncio.run(ask())
    assert answer.status_code == 200
    assert "operator eval run" in answer.text
