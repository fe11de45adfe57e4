"""`operator serve`: the HTTP API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operator_sre.faces.cli.listening import listens

if TYPE_CHECKING:
    from operator_sre.faces.cli.listening import Serve

__all__ = ["serve"]


def _load() -> Serve:
    from operator_sre.faces.api.serving import serve as serve_api

    return serve_api


serve = listens(
    _load,
    "Answer programs by HTTP until stopped; see docs/api.md.",
    what="the API",
    at=8440,
)
