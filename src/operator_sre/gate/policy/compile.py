"""Making `default.json`, which is loaded, from `default.yaml`, which people write.

python -m operator_sre.gate.policy.compile
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from operator_sre.gate.policy.load import merge, read_text
from operator_sre.gate.policy.policy import COMPILED, Rulebook, encode_book
from operator_sre.gate.policy.rule import BUILT_IN
from operator_sre.gate.policy.schema import Written, read_policy

__all__ = ["SOURCE", "compile_policy", "source"]

FOLDER = Path(__file__).parent
SOURCE = FOLDER / "default.yaml"


def source() -> Written:
    """The built-in rules as people wrote them."""
    return read_policy(read_text(SOURCE), SOURCE.name, origin=BUILT_IN)


def compile_policy(written: Written) -> str:
    """The built-in rules as they are loaded, a rule on each line."""
    packed = json.loads(encode_book(merge(written, Rulebook(sensitive=(), rules=()))))
    text = json.dumps(packed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.replace('},{"', '},\n{"') + "\n"


if __name__ == "__main__":
    found = source()
    (FOLDER / COMPILED).write_text(compile_policy(found), encoding="utf-8")
    sys.stdout.write(f"{len(found.rules)} rules\n")
