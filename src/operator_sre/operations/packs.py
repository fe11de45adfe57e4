"""Packs: ready-made descriptions of common systems."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from msgspec import Meta

from operator_protocols.domain.token import Role
from operator_sre.app.description import Written
from operator_sre.app.packs import Pack, PackLine
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.operations.operation import Effect, Operation, Request, Table, View

__all__ = ["OPERATIONS", "SUMMARY", "PackDocument", "PackPage", "WrittenDocument"]

SUMMARY = "Ready-made descriptions of common systems."
Folder = Annotated[
    str, Meta(max_length=4000, description="Packs of this folder instead of the built-in ones.")
]
Name = Annotated[str, Meta(min_length=1, max_length=200, description="The name of a pack.")]


class ListPacks(Request, frozen=True):
    """Which packs."""

    folder: Folder = ""


class ShowPack(Request, frozen=True):
    """Which pack."""

    name: Name
    folder: Folder = ""


class AddPack(Request, frozen=True):
    """Which pack, and for which subject."""

    name: Name
    subject: Annotated[
        str, Meta(max_length=63, description="The name of the subject; default: that of the pack.")
    ] = ""
    folder: Folder = ""


@dataclass(frozen=True, slots=True)
class PackPage:
    """Every pack."""

    packs: tuple[PackLine, ...]
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class PackDocument:
    """One pack with its text."""

    pack: Pack
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class WrittenDocument:
    """The files that were written."""

    written: Written
    schema_version: str = SCHEMA_VERSION


def _table(found: PackPage, now: datetime) -> View:
    rows = [
        (
            *(pack.name, pack.probes, pack.invariants, pack.causes, pack.levers),
            pack.sentence,
        )
        for pack in found.packs
    ]
    head = ("pack", "probes", "invariants", "causes", "levers", "checks")
    return [Table(head, rows, "No packs."), "", "Add one with: operator packs add PACK"]


def _text(found: PackDocument, now: datetime) -> View:
    return found.pack.text.rstrip("\n").split("\n")


def _tell(found: WrittenDocument, now: datetime) -> View:
    written = found.written
    return [
        f"wrote   {written.file}",
        f"added   [subjects.{written.name}] to {written.config}",
        "next    set its addresses, limits and commands, then test it:",
        f"        operator subjects test {written.file}",
    ]


OPERATIONS = (
    Operation(
        name="packs list",
        help="List packs with what they hold.",
        request=ListPacks,
        result=PackPage,
        call="operator_sre.app.packs.list_packs",
        view=_table,
    ),
    Operation(
        name="packs show",
        help="Print one pack.",
        request=ShowPack,
        result=PackDocument,
        call="operator_sre.app.packs.show_pack",
        view=_text,
        arguments=("name",),
    ),
    Operation(
        name="packs add",
        help="Copy a pack to NAME.yaml and add it to operator.toml. Overwrites nothing.",
        request=AddPack,
        result=WrittenDocument,
        call="operator_sre.app.packs.add_pack",
        view=_tell,
        effect=Effect.CHANGE,
        role=Role.ADMIN,
        arguments=("name",),
        examples=("operator packs add nginx --subject shop-web",),
    ),
)
