"""`operator docs`: the documentation of this version, without a network."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from typing import Annotated

import typer

from operator_protocols.errors import NotFoundError
from operator_sre.faces.cli.options import JsonOption
from operator_sre.faces.cli.output import print_json, print_lines, print_table

__all__ = ["docs"]

SEE_ALL = "List all topics with: operator docs"


def docs(
    topic: Annotated[str, typer.Argument(help="The page, such as gate or subjects/etcd.")] = "",
    schema: Annotated[
        str, typer.Option(help="Print the JSON schema of what a command prints with --json.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """List the pages of the documentation, or print one as Markdown."""
    from operator_sre.release import documentation, read_pages

    if schema:
        command = " ".join(schema.split()).removeprefix("operator ")
        from operator_sre.contract.schemas import document_schema
        from operator_sre.operations.documents import all_documents

        documents = all_documents()
        if command not in documents:
            problem = f"No command is called {command!r}."
            raise _not_found(problem, command, documents, "List all commands with: operator --help")
        found = document_schema(f"operator {command} --json", documents[command])
        if as_json:
            print_json({"command": command, "schema": found})
        else:
            print_lines(json.dumps(found, indent=1, ensure_ascii=False).splitlines())
        return
    folder = documentation()
    if folder is None:
        raise NotFoundError(
            "This installation has no documentation.",
            next_step="Install a wheel that `make dist` built, or read docs/ in a checkout.",
        )
    pages = read_pages(folder)
    topic = topic.removeprefix("docs/").removesuffix(".md")
    if topic and topic not in pages:
        raise _not_found(f"No page is called {topic!r}.", topic, pages, SEE_ALL)
    if topic:
        text = (folder / f"{topic}.md").read_text(encoding="utf-8")
        if as_json:
            print_json({"topic": topic, "text": text})
        else:
            print_lines(text.splitlines())
    elif as_json:
        topics = [{"topic": name, "title": title} for name, title in pages.items()]
        print_json({"topics": topics})
    else:
        print_table(("topic", "title"), list(pages.items()))


def _not_found(problem: str, name: str, known: Iterable[str], otherwise: str) -> NotFoundError:
    near = difflib.get_close_matches(name, known, n=1)
    step = f"Did you mean {near[0]!r}? {otherwise}" if near else otherwise
    return NotFoundError(problem, next_step=step)
