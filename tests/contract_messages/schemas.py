"""The schemas in docs/schemas; `python -m tests.contract_messages.schemas` writes them.

It refuses to take anything away that programs may rely on, unless told --breaking.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from operator_sre.contract import messages
from operator_sre.contract.messages import Message
from operator_sre.contract.schemas import Shape, document_schema
from operator_sre.operations.documents import ALIKE, all_documents
from tests.contract_messages.holding import file_name

__all__ = ["DOCUMENTS", "FOLDER", "METHODS", "all_schemas", "broken", "main", "promises", "text_of"]

DOCUMENTS: dict[str, Shape] = all_documents()
FOLDER = Path(__file__).parents[2] / "docs" / "schemas"
Schema = dict[str, Any]
_NAMES = {
    "validate_agent_project": "ValidateAgentProject",
    "summarize_run": "SummarizeRun",
    "explain_failure": "ExplainFailure",
    "explain_policy_denial": "ExplainPolicyDenial",
    "recommend_policy_patch": "RecommendPolicyPatch",
    "get_run_timeline": "GetRunTimeline",
    "next_action": "NextAction",
}
# The seven methods by their names, each with what is asked and what is told.
METHODS: dict[str, tuple[type[Message], type[Message]]] = {
    method: (getattr(messages, f"{name}Request"), getattr(messages, f"{name}Response"))
    for method, name in _NAMES.items()
}


@cache
def all_schemas() -> dict[str, Schema]:
    """Every schema there is, by the name of its file."""
    found: dict[str, Schema] = {}
    for method, (asked, told) in METHODS.items():
        found[f"{method}.request.json"] = document_schema(asked.__name__, asked)
        found[f"{method}.response.json"] = document_schema(told.__name__, told)
    for verb, shape in (DOCUMENTS | ALIKE).items():
        title = f"operator {verb} --json" if verb in DOCUMENTS else f"{verb}, of any verb"
        found[f"cli/{file_name(verb)}.json"] = document_schema(title, shape)
    return found


def text_of(schema: Schema) -> str:
    """A schema as the text of its file."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def promises(schema: Schema) -> dict[str, str]:
    """Each field that a document may have, by its path: what it can be, and whether always."""
    return dict(_promises(schema, schema, "", ()))


def broken(old: Schema, new: Schema) -> list[str]:
    """What programs rely on that would not hold any more."""
    before, after = promises(old), promises(new)
    lost = [f"{path} is gone" for path in before if path not in after]
    return lost + [
        f"{path} was {told}, and is {after[path]}"
        for path, told in before.items()
        if after.get(path, told) != told
    ]


def _promises(
    schema: Schema, whole: Schema, path: str, inside: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    name = schema.get("$ref", "").rpartition("/")[2]
    if name:
        if name not in inside:
            yield from _promises(whole["$defs"][name], whole, path, (*inside, name))
        return
    for number, one in enumerate(schema.get("anyOf", ())):
        kind = f"{path}|{number}" if "properties" in one else path
        yield from _promises(one, whole, kind, inside)
    for field, one in schema.get("properties", {}).items():
        always = "always" if field in schema["required"] else "maybe"
        yield f"{path}.{field}", f"{always} {', '.join(sorted(_kinds(one, whole)))}"
        yield from _promises(one, whole, f"{path}.{field}", inside)
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(schema.get(key), dict):
            yield from _promises(schema[key], whole, f"{path}{mark}", inside)


def _kinds(schema: Schema, whole: Schema) -> set[str]:
    """What a value can be, in the words of JSON Schema."""
    if "$ref" in schema:
        return _kinds(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
    if "anyOf" in schema:
        return {kind for one in schema["anyOf"] for kind in _kinds(one, whole)}
    return {schema.get("format") or schema.get("type") or "any"}


def main() -> None:
    """Write them, and remove those of verbs that are gone."""
    made, allowed = all_schemas(), "--breaking" in sys.argv[1:]
    wrong = []
    for name, schema in made.items():
        file = FOLDER / name
        if file.exists():
            wrong += [f"{name}: {one}" for one in broken(json.loads(file.read_text()), schema)]
    if wrong and not allowed:
        sys.exit("\n".join([*wrong, "Nothing was written. If this is meant, say --breaking."]))
    for file in (FOLDER / "cli").glob("*.json"):
        if f"cli/{file.name}" not in made:
            file.unlink()
    for name, schema in made.items():
        (FOLDER / name).write_text(text_of(schema))


if __name__ == "__main__":
    main()
