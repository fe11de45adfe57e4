"""`operator web`: the console in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operator_sre.faces.cli.listening import listens

if TYPE_CHECKING:
    from operator_sre.faces.cli.listening import Serve

__all__ = ["web"]


def _load() -> Serve:
    from operator_sre.faces.web.serving import serve

    return serve


web = listens(
    _load,
    "Show everything in a browser, and let people answer there; see docs/web.md.",
    what="the web console",
    at=8442,
)
