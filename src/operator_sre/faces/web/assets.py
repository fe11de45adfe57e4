"""Styles, scripts and pictures: served from memory under names that change with what they hold."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter, Request, Response

from operator_sre.app.extras import has_evals

__all__ = ["ASSETS", "Asset", "assets", "router", "url_of"]

ASSETS = "/assets"
FOLDER = Path(__file__).parent / "static"
DIGITS = 16
FOREVER = "public, max-age=31536000, immutable"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Styles that belong to the pages of other packages.
_OF_OTHERS = {"evals.css": "operator_evals.rendering"} if has_evals() else {}
router = APIRouter()


@dataclass(frozen=True, slots=True)
class Asset:
    """One file, as it is sent."""

    body: bytes
    packed: bytes
    media: str
    url: str


@cache
def assets() -> Mapping[str, Asset]:
    """Every file by its path, read once; licences lie beside them and are not served."""
    found = {
        file.relative_to(FOLDER).as_posix(): file.read_bytes()
        for file in sorted(FOLDER.rglob("*"))
        if file.suffix in _TYPES
    }
    for name, package in _OF_OTHERS.items():
        found[name] = files(package).joinpath("page.css").read_bytes()
    assets = {}
    for name, body in found.items():
        digest = hashlib.sha256(body).hexdigest()[:DIGITS]
        place = f"{ASSETS}/{digest}/{name}"
        assets[name] = Asset(body, gzip.compress(body, mtime=0), _TYPES[Path(name).suffix], place)
    return assets


def url_of(name: str) -> str:
    """Where a file is; KeyError where there is none, so that no page asks for what is not there."""
    return assets()[name].url


@router.get(f"{ASSETS}/{{digest}}/{{name:path}}", response_model=None)
async def asset(request: Request, digest: str, name: str) -> Response:
    """One file. What it held before, or never, is not here."""
    found = assets().get(name)
    if found is None or found.url != f"{ASSETS}/{digest}/{name}":
        return Response("There is no such file.\n", 404, media_type="text/plain")
    headers = {"cache-control": FOREVER, "vary": "accept-encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        return Response(found.packed, headers=headers, media_type=found.media)
    return Response(found.body, headers=headers, media_type=found.media)
