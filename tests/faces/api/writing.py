"""Write docs/openapi.json anew."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from operator_sre.faces.api.schema import document_of
from tests.faces.api.test_schema import DOCUMENT
from tests.faces.api.world import world_at

__all__ = ["write"]


def write() -> None:
    """The document as the application has it now."""
    with tempfile.TemporaryDirectory() as folder, world_at(Path(folder)) as world:
        text = json.dumps(document_of(world.api), indent=1, sort_keys=True)
    DOCUMENT.write_text(text + "\n")


if __name__ == "__main__":
    write()
