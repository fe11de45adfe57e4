"""Pages of the console, made from operations that read."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import Request, Response

from operator_protocols.errors import UsageError
from operator_sre.faces.web.responses import home_of, page
from operator_sre.faces.web.routes import address, router_of, shows
from operator_sre.operations import all_operations
from operator_sre.operations.operation import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from operator_sre.app.wiring import App
    from operator_sre.operations.operation import Operation

__all__ = ["router"]

ROWS_MAX = 50
router = router_of()


def _add_page(operation: Operation, path: str, title: str) -> None:
    @shows(router, path, role=operation.role)
    async def serve(request: Request) -> Response:
        filters = {name: value for name, value in request.query_params.items() if value}
        facts = await _facts(home_of(request), operation, path, filters)
        return await page(request, "operation.html", lambda _: facts, title=title)


async def _facts(
    home: App, operation: Operation, path: str, filters: Mapping[str, str]
) -> Mapping[str, Any]:
    """What the page shows: the filters, the tables, and where older rows are."""
    paging, most = operation.page, {"limit": ROWS_MAX + 1} if operation.page else {}
    try:
        request = msgspec.convert({**filters, **most}, operation.request, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"Invalid filter: {error}.", next_step="Remove it.") from None
    found = operation.perform(home, request)
    document = operation.document(await found if inspect.isawaitable(found) else found)
    older = ""
    if paging:
        (name, *_) = operation.fields
        rows = getattr(document, name)
        if len(rows) > ROWS_MAX:
            place = getattr(rows[ROWS_MAX - 1], paging.key)
            older = address(path, {**filters, paging.place: place})
            document = type(document)(**{name: rows[:ROWS_MAX]})
    hidden = ("limit", paging.place) if paging else ()
    view = operation.view(document, home.clock.now())
    return {
        "summary": operation.summary,
        "path": path,
        "filters": [
            parameter for parameter in operation.parameters if parameter.name not in hidden
        ],
        "values": filters,
        "tables": [part for part in view if isinstance(part, Table)],
        "older": older,
    }


for _operation in all_operations():
    if _operation.place:
        _add_page(_operation, _operation.place.path, _operation.place.name)
