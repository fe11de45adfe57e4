"""The harness measures the product: it does not depend on what shows it."""

from __future__ import annotations

import ast
from pathlib import Path

HARNESS = Path(__file__).parents[2] / "evals" / "src"
SHOWS = ("operator_lab.demo", "operator_lab.tui", "operator_sre.app.demo")


def test_the_harness_does_not_import_the_demo() -> None:
    found = []
    for file in sorted(HARNESS.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [name.name for name in node.names] if isinstance(node, ast.Import) else []
            found += [f"{file.name}: {name}" for name in names if name.startswith(SHOWS)]
    assert found == []
