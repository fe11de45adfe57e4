"""The declared documents have the types that the functions behind the commands return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_type_hints

from operator_evals.app import views
from operator_evals.app.views import CampaignView, Comparison, Scored
from operator_evals.cli.documents import DOCUMENTS
from operator_sre.contract.schemas import OneOf
from tests.every import every


@every(
    ("verb", "field", "function", "kind"),
    [
        ("eval list", "campaigns", views.campaigns_in, list[CampaignView]),
        ("eval compare", "comparisons", views.compare_all, list[Comparison]),
        ("eval show", "trial", views.load_trial, Scored),
    ],
)
def test_a_document_has_the_type_that_its_command_gets(
    verb: str, field: str, function: Callable[..., Any], kind: object
) -> None:
    assert get_type_hints(function)["return"] == kind
    document = DOCUMENTS[verb]
    shapes = document.shapes if isinstance(document, OneOf) else (document,)
    assert kind in [shape.get(field) for shape in shapes if isinstance(shape, dict)]
