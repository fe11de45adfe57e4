"""The reference of commands in the docs and the contents of the help, made from the commands.

python -m tests.faces.reference
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from textwrap import wrap

from operator_sre.operations import all_operations
from operator_sre.operations.documents import LOCAL_COMMANDS
from tests.faces.cli.tree import Parameter, Verb, global_options, own_sentences, verbs

__all__ = ["CONTENTS", "DOCUMENT", "FIRST", "contents", "reference"]

DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"
FIRST = "## Reference\n"
CONTENTS = Path(__file__).parents[2] / "src" / "operator_sre" / "faces" / "cli" / "contents.py"
TABLE = "SENTENCES = {\n"
LOCAL = {**LOCAL_COMMANDS, **{each.name: each.local for each in all_operations()}}
EXAMPLES = {operation.name: operation.examples for operation in all_operations()}


def reference(found: Iterable[Verb]) -> str:
    """Options that every command has, then each noun with its verbs and what they take."""
    lines = ["", "### Everywhere", "", *(_told(one) for one in global_options())]
    for noun, inside in groupby(found, key=lambda verb: verb.path[0]):
        lines += ["", f"### {noun}"]
        for verb in inside:
            lines += [
                "",
                f"**`operator {_usage(verb)}`**",
                "",
                *wrap(" ".join(verb.help.split()), 100),
            ]
            told = [_told(one) for one in verb.parameters if one.option != "--json"]
            lines += ["", *told] if told else []
            if why := LOCAL.get(verb.line):
                lines += ["", f"Only on the command line: {why}."]
            examples = EXAMPLES.get(verb.line, ())
            lines += ["", "```sh", *examples, "```"] if examples else []
    return "\n".join(lines) + "\n"


def _usage(verb: Verb) -> str:
    words = [_word(one) for one in verb.parameters if not one.option]
    needed = [f"{one.option} ..." for one in verb.parameters if one.option and one.required]
    return " ".join([verb.line, *words, *needed])


def _word(one: Parameter) -> str:
    word = one.name.upper() + ("..." if one.many else "")
    return word if one.required else f"[{word}]"


def _told(one: Parameter) -> str:
    name = one.option or one.name.upper()
    shown = one.default not in (None, "", False, [], ()) and not callable(one.default)
    default = f" Default: `{one.default}`." if shown else ""
    return f"- `{name}`: {one.help or 'The id.'}{default}"


def contents(sentences: Mapping[str, str]) -> str:
    """The table of nouns that the help lists without loading any of them."""
    before, _, _ = CONTENTS.read_text().partition(TABLE)
    rows = "".join(f'    "{noun}": {json.dumps(told)},\n' for noun, told in sentences.items())
    return f"{before}{TABLE}{rows}}}\n"


if __name__ == "__main__":
    CONTENTS.write_text(contents(own_sentences()))
    before, _, _ = DOCUMENT.read_text().partition(FIRST)
    DOCUMENT.write_text(f"{before}{FIRST}{reference(verbs())}")
