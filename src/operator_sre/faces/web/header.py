"""The header of every page: the number of pending approvals, and the kill switch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastapi import Request, Response

from operator_sre.app import confirmations
from operator_sre.app.approvals import page_of_approvals
from operator_sre.app.restraints import switch_state
from operator_sre.faces.web.responses import part
from operator_sre.faces.web.routes import router_of, shows

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["router", "standing_of"]

PENDING_MAX = 100
router = router_of()


def standing_of(home: App) -> Mapping[str, Any]:
    """Facts of the top of a page."""
    pending = page_of_approvals(home, pending_only=True, limit=PENDING_MAX)
    changes = confirmations.page(home, pending_only=True, limit=PENDING_MAX)
    return {
        "pending_count": len(pending),
        "changes_count": len(changes),
        "switch": switch_state(home),
    }


@shows(router, "/parts/standing")
async def standing(request: Request) -> Response:
    """The top of a page, when it changes."""
    return await part(request, "parts/standing.html", standing_of)
