"""Campaigns and trials: the pages of the viewer, inside of the console."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import Request, Response
from markupsafe import Markup

from operator_evals.app.campaigns import database_path
from operator_evals.gallery import Gallery
from operator_evals.rendering import Html, Served, campaign_body, campaigns_body, trial_body
from operator_evals.viewer.application import download
from operator_sre.faces.web.responses import home_of, page
from operator_sre.faces.web.routes import router_of, shows

if TYPE_CHECKING:
    from collections.abc import Callable

    from operator_sre.app.wiring import App

__all__ = ["router"]

PLACES = Served("/evals")
router = router_of("/evals")


@shows(router, "")
async def campaigns(request: Request) -> Response:
    """All campaigns."""
    return await _page(
        request, "Evals", lambda gallery: campaigns_body(gallery.campaigns(), PLACES)
    )


@shows(router, "/campaign")
async def campaign(request: Request, name: str = "") -> Response:
    """One campaign."""

    def body(gallery: Gallery) -> Html:
        found = gallery.campaign(name)
        return campaign_body(found.recorded, found.analysis, found.known, PLACES)

    return await _page(request, f"Campaign {name}", body)


@shows(router, "/trial")
async def trial(request: Request, campaign: str = "", key: str = "") -> Response:
    """One trial."""
    return await _page(
        request, key, lambda gallery: trial_body(gallery.trial(campaign, key), PLACES)
    )


@shows(router, "/ledger")
async def ledger(request: Request, campaign: str = "", key: str = "") -> Response:
    """The ledger of a trial, as a file to keep."""
    bundle = _gallery(home_of(request)).bundle(campaign, key)
    return download(bundle, f"{campaign}-{key}")


async def _page(request: Request, title: str, body: Callable[[Gallery], Html]) -> Response:
    def facts(home: App) -> dict[str, Markup]:
        # Everything from outside is escaped where this is made.
        return {"body": Markup(body(_gallery(home)))}  # noqa: S704

    return await page(request, "evals.html", facts, title=title)


def _gallery(home: App) -> Gallery:
    return _open_gallery(database_path(home.config, None))


@lru_cache(maxsize=4)
def _open_gallery(path: Path) -> Gallery:
    """One for each database, which keeps what it computed."""
    return Gallery(path)
