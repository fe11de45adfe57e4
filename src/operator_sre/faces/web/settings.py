"""The settings page: tokens, notification channels, models, and secrets by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastapi import Request, Response

from operator_protocols.domain.token import Role
from operator_protocols.errors import OperatorError
from operator_sre.app.models import list_models, try_model
from operator_sre.app.notices import ChannelStatus, notify_status, send_test
from operator_sre.app.secrets import list_secrets
from operator_sre.app.tokens import find
from operator_sre.faces.web.forms import form_of
from operator_sre.faces.web.responses import home_of, page, redirect
from operator_sre.faces.web.routes import does, router_of, shows

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["router"]

PLACE = "/settings"
TOKENS_MAX = 100
router = router_of()


@shows(router, PLACE)
async def settings(request: Request) -> Response:
    """All of it; no secret is ever on this page."""

    def facts(home: App) -> Mapping[str, Any]:
        channels: Sequence[ChannelStatus] = ()
        problem = ""
        try:
            channels = notify_status(home)
        except OperatorError as error:  # an unreadable file of addresses
            problem = f"{error.message} {error.next_step}".strip()
        return {
            "tokens": find(home)[:TOKENS_MAX],
            "now": home.clock.now(),
            "channels": channels,
            "channels_problem": problem,
            "models": list_models(home),
            "secrets": list_secrets(home),
            "home_folder": str(home.config.home),
            "file": str(home.config.file or ""),
        }

    return await page(request, "settings.html", facts, title="Settings")


@does(router, f"{PLACE}/notify", role=Role.APPROVER)
async def notify(request: Request) -> Response:
    """Send a test message to every channel."""
    tried = await send_test(home_of(request))
    failed = [f"{result.name}: {result.problem}" for result in tried if result.problem]
    words = f"Not sent to every channel: {'; '.join(failed)}" if failed else "Test message sent."
    return redirect(request, words, to=PLACE, bad=bool(failed))


@does(router, f"{PLACE}/model", role=Role.ADMIN)
async def model(request: Request) -> Response:
    """One small question to a model; it may cost a little."""
    form = await form_of(request)
    tried = await try_model(home_of(request), form.text("model", needed=True, most=200))
    if tried.problem:
        return redirect(request, f"{tried.name}: {tried.problem}", to=PLACE, bad=True)
    words = f"{tried.name} answered in {tried.seconds:.1f} s, for {tried.spent.usd:.4f} USD."
    return redirect(request, words, to=PLACE)
