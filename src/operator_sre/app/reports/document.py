"""What a report is made of, whatever it is rendered as: headings, paragraphs, tables, lists."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Block", "Bullets", "Charts", "Code", "Heading", "Line", "Paragraph", "Span", "Table"]


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of text: plain, `code`, or `strong`."""

    text: str
    style: str = "plain"


Line = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a level, 1 for the title."""

    level: int
    line: Line


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Some sentences."""

    line: Line


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; without a head it is a list of facts, the name of each in front."""

    head: tuple[str, ...]
    rows: tuple[tuple[Line, ...], ...]


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list; with `boxes` one to be ticked off."""

    items: tuple[Line, ...]
    boxes: bool = False


@dataclass(frozen=True, slots=True)
class Code:
    """Lines to be read as they are."""

    text: str


@dataclass(frozen=True, slots=True)
class Charts:
    """Where charts go, in what can show them."""


Block = Heading | Paragraph | Table | Bullets | Code | Charts
