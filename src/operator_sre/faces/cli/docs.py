"""`operator docs`: the documentation of this version, without a network."""

from __future__ import annotations

import difflib
from typing import Annotated

import typer

from operator_protocols.errors import NotFoundError
from operator_sre.faces.cli.options import JsonOption
from operator_sre.faces.cli.output import print_json, print_lines, print_table

__all__ = ["docs"]

SEE_ALL = "List all topics with: operator docs"


def docs(
    topic: Annotated[str, typer.Argument(help="The page, such as gate or subjects/etcd.")] = "",
    as_json: JsonOption = False,
) -> None:
    """List the pages of the documentation, or print one as Markdown."""
    from operator_sre.release import documentation, read_pages

    folder = documentation()
    if folder is None:
        raise NotFoundError(
            "This installation has no documentation.",
            next_step="Install a wheel that `make dist` built, or read docs/ in a checkout.",
        )
    pages = read_pages(folder)
    topic = topic.removeprefix("docs/").removesuffix(".md")
    if topic and topic not in pages:
        near = difflib.get_close_matches(topic, pages, n=1)
        raise NotFoundError(
            f"No page is called {topic!r}.",
            next_step=f"Did you mean {near[0]!r}? {SEE_ALL}" if near else SEE_ALL,
        )
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
