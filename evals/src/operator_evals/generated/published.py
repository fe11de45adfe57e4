"""Trials of generated faults as a file: one line for each, the same for the same facts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from operator_evals.database import Generated
from operator_protocols.errors import StoreError
from operator_sre.codec import from_json, to_json

__all__ = ["publish_generated", "read_generated"]

BYTES_MAX = 256 << 20


def publish_generated(found: Sequence[Generated]) -> str:
    """The text, without what only charts need."""
    lines = []
    for each in sorted(found, key=lambda each: (each.facts.variant, each.facts.seed)):
        bare = [replace(look, readings={}) for look in each.facts.course]
        after = each.facts.after and replace(each.facts.after, readings={})
        facts = replace(each.facts, before=None, after=after, course=tuple(bare), ledger="")
        line = to_json(Generated(each.machine, facts))
        lines.append(json.dumps(line, sort_keys=True, ensure_ascii=False) + "\n")
    return "".join(lines)


def read_generated(path: Path) -> list[Generated]:
    """What is in a file; StoreError when it is no such text."""
    try:
        if path.stat().st_size > BYTES_MAX:
            raise StoreError(f"{path} is larger than {BYTES_MAX >> 20} MB.")
        lines = path.read_text(encoding="utf-8").splitlines()
        return [from_json(Generated, json.loads(line)) for line in lines]
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise StoreError(f"{path} does not hold generated faults: {problem}.") from problem
