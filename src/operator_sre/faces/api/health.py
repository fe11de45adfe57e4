"""Subjects and how everything is; and how we are ourselves, for Prometheus."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from operator_protocols.domain.token import Role
from operator_protocols.errors import NotFoundError
from operator_sre.app.health import HealthView, SubjectHealth, health_of, show_health
from operator_sre.app.scraping import METRICS_TYPE
from operator_sre.app.subjects import SubjectLine, list_subjects
from operator_sre.contract.messages import SCHEMA_VERSION
from operator_sre.faces.api.answering import answer
from operator_sre.faces.api.doors import Door, ask_long, home_of, opens

__all__ = [
    "HealthDocument",
    "SubjectDocument",
    "SubjectPage",
    "metrics_router",
    "router",
]

router = APIRouter(route_class=Door, prefix="/v1")
metrics_router = APIRouter(route_class=Door)
Name = Annotated[str, Path(min_length=1, max_length=200, description="The name of a subject.")]


@dataclass(frozen=True, slots=True)
class HealthDocument:
    """All subjects, the worst first."""

    health: HealthView
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class SubjectPage:
    """Every subject that is configured or has a rig."""

    subjects: tuple[SubjectLine, ...]
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class SubjectDocument:
    """How one subject is."""

    subject: SubjectHealth
    schema_version: str = SCHEMA_VERSION


@opens(router, "GET", "/health", role=Role.VIEWER, answers=HealthDocument)
async def show_all_health(request: Request) -> Response:
    """How everything is, by what the store knows; nobody looks at it now."""
    return answer(HealthDocument(await ask_long(home_of(request), show_health)))


@opens(router, "GET", "/subjects", role=Role.VIEWER, answers=SubjectPage)
async def list_all_subjects(request: Request) -> Response:
    """Every subject that is configured or has a rig."""
    return answer(SubjectPage(tuple(await ask_long(home_of(request), list_subjects))))


@opens(
    router,
    "GET",
    "/subjects/{name}/health",
    role=Role.VIEWER,
    answers=SubjectDocument,
    errors=[404],
)
async def show_subject_health(request: Request, name: Name) -> Response:
    """How one subject is."""
    home = home_of(request)
    known = home.subjects()
    if name not in known:
        there = ", ".join(known) or "none"
        raise NotFoundError(f"There is no subject {name!r}.", next_step=f"Subjects: {there}.")
    return answer(SubjectDocument(await ask_long(home, health_of, name)))


@opens(
    metrics_router,
    "GET",
    "/metrics",
    role=Role.VIEWER,
    answers=str,
    media="text/plain",
)
async def scrape_metrics(request: Request) -> Response:
    """Our own figures, in the words of Prometheus."""
    state = request.app.state
    text: bytes = await asyncio.to_thread(state.scraped.text)
    return Response(text + state.counts.lines().encode(), media_type=METRICS_TYPE)
