"""The schemas in docs/schemas; `python -m tests.contract_messages.schemas` writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.contract_messages.recording import MADE
from tests.contract_messages.shapes import METHODS, schema_of

__all__ = ["FOLDER", "main", "method_schemas", "text_of"]

FOLDER = Path(__file__).parents[2] / "docs" / "schemas"


def method_schemas() -> dict[str, dict[str, Any]]:
    """Every schema of the seven methods, by the name of its file."""
    found = {}
    for method, (asked, told) in METHODS.items():
        found[f"{method}.request.json"] = schema_of(asked)
        found[f"{method}.response.json"] = schema_of(told)
    for verb, (_, told) in zip(MADE, METHODS.values(), strict=True):
        found[f"cli/{verb}.json"] = schema_of(told)
    return found


def text_of(schema: dict[str, Any]) -> str:
    """A schema as the text of its file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write them."""
    (FOLDER / "cli").mkdir(parents=True, exist_ok=True)
    for name, schema in method_schemas().items():
        (FOLDER / name).write_text(text_of(schema))


if __name__ == "__main__":
    main()
