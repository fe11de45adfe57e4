"""A fault is also called chaos, wherever a command takes one as an option."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = ("src", "lab/src", "evals/src")
# A parameter of a command that is called `fault`, with what `typer` is told about it.
OPTION = re.compile(r"^    fault: Annotated\[(.*?)\n    \]", re.MULTILINE | re.DOTALL)


def test_chaos_is_another_name_of_fault() -> None:
    found: dict[str, list[str]] = {}
    for source in SOURCES:
        for file in sorted((ROOT / source).rglob("cli/*.py")):
            for told in OPTION.findall(file.read_text()):
                if "typer.Option" in told:
                    found.setdefault(file.name, []).append(told)
    assert {"demo.py", "evals.py"} <= found.keys()
    for name, options in found.items():
        for told in options:
            assert '"--fault", "--chaos"' in told, name
