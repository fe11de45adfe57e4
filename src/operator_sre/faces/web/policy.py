"""The policy: every rule with its examples, what it says of a command, and changes asked for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Path, Query, Request, Response
from fastapi.responses import HTMLResponse

from operator_protocols.domain.confirmation import ConfirmationState
from operator_protocols.domain.token import Role
from operator_protocols.domain.verdict import Level
from operator_sre.app import confirmations
from operator_sre.app.policy import explain_policy, rule_fields, shown_policy
from operator_sre.codec import to_json
from operator_sre.faces.web.forms import form_of
from operator_sre.faces.web.renderer import guard, render
from operator_sre.faces.web.responses import home_of, page, part, redirect, session_of
from operator_sre.faces.web.routes import does, router_of, shows

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["router"]

PLACE = "/policy"
ASKED = "/confirmations"
RULES_MAX = 60
CONFIRMATIONS_MAX = 50
COMMAND_MAX = 4000
router = router_of()
Id = Annotated[str, Path(min_length=1, max_length=80)]
Text = Annotated[str, Query(max_length=200)]
Number = Annotated[str, Query(pattern=r"^\d{0,6}$")]


@shows(router, PLACE)
async def policy(request: Request, q: Text = "", level: Text = "", at: Number = "") -> Response:
    """Rules in their order, and the requested changes."""

    def facts(home: App) -> Mapping[str, Any]:
        file, digest, book = shown_policy(home.config)
        rules = [
            rule
            for rule in book["rules"]
            if (not level or rule["level"] == level)
            and (not q or q.lower() in json.dumps(rule).lower())
        ]
        filters = {"q": q, "level": level, "at": int(at or 0)}
        first = int(at or 0) if int(at or 0) < len(rules) else 0
        return {
            **_waiting(home),
            "filters": filters,
            "file": file,
            "digest": digest,
            "rules": rules[first : first + RULES_MAX],
            "found": len(rules),
            "rules_max": RULES_MAX,
            "levels": list(Level),
        }

    return await page(request, "policy.html", facts, title="Policy")


@shows(router, "/parts/confirmations")
async def waiting(request: Request) -> Response:
    """Changes that wait for a yes or a no."""
    return await part(request, "parts/confirmations.html", _waiting)


@does(router, f"{PLACE}/explain", role=Role.VIEWER, once=False)
async def explain(request: Request) -> Response:
    """What the policy says of a command or a rule; nothing is run."""
    query = (await form_of(request)).text("what", most=COMMAND_MAX)
    home = home_of(request)

    def facts() -> Mapping[str, Any]:
        if not query.strip():
            return {"what": "", "explained": None, "rule": None, "parts": ()}
        explained = explain_policy(home.config, query)
        rule = rule_fields(explained.rule) if explained.rule is not None else None
        parts = [(name, [rule_fields(rule) for rule in rules]) for name, rules in explained.parts]
        return {"what": query, "explained": explained, "rule": rule, "parts": parts}

    text = render("parts/policy_explained.html", await asyncio.to_thread(facts))
    return HTMLResponse(guard(text, session_of(request)))


@shows(router, f"{ASKED}/{{confirmation}}")
async def asked_for(request: Request, confirmation: Id) -> Response:
    """One change: what approving does, in full."""
    return await page(
        request,
        "confirmation.html",
        lambda home: _confirmation(home, confirmation),
        title="A change",
    )


@shows(router, f"/parts{ASKED}/{{confirmation}}")
async def asked_now(request: Request, confirmation: Id) -> Response:
    """The same, as it is now."""
    return await part(
        request, "parts/confirmation.html", lambda home: _confirmation(home, confirmation)
    )


@does(router, f"{ASKED}/{{confirmation}}/approve", role=Role.APPROVER)
async def confirm(request: Request, confirmation: Id) -> Response:
    """Approve exactly the change that was shown, and make it."""
    home, form = home_of(request), await form_of(request)
    decided = await confirmations.approve(
        home,
        confirmation,
        reason=form.text("reason"),
        digest=form.text("digest", needed=True),
        role=session_of(request).role.value,
    )
    failed = decided.outcome if not decided.applied else ""
    made = "the change is applied" if decided.applied else "the requester can continue"
    words = f"Confirmed: {failed or made}."
    return redirect(request, words, to=f"{ASKED}/{confirmation}", bad=bool(failed))


@does(router, f"{ASKED}/{{confirmation}}/decline", role=Role.APPROVER)
async def decline(request: Request, confirmation: Id) -> Response:
    """Decline; it cannot be approved any more."""
    home, form = home_of(request), await form_of(request)
    reason = form.text("reason", needed=True)
    role = session_of(request).role.value
    await confirmations.decline(home, confirmation, reason=reason, role=role)
    return redirect(request, "Declined. Nothing was changed.", to=f"{ASKED}/{confirmation}")


def _waiting(home: App) -> Mapping[str, Any]:
    found = confirmations.page(home, pending_only=True, limit=CONFIRMATIONS_MAX)
    return {"waiting": found}


def _confirmation(home: App, confirmation: str) -> Mapping[str, Any]:
    found = confirmations.get(home, confirmation)
    return {
        "one": found,
        "patch": str(found.change.get("patch", "")),
        "change": json.dumps(
            to_json({name: value for name, value in found.change.items() if name != "patch"}),
            indent=2,
            ensure_ascii=False,
        ),
        "left": confirmations.left_of(home, found),
        "is_pending": found.state is ConfirmationState.PENDING,
        "is_late": found.expires_at <= home.clock.now(),
    }
