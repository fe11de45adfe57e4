"""The test bed as a subject with a rig, so that generated faults can be injected into it.

Its description is read as it is, so that what is measured is the agent with a declarative subject.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from operator_protocols.domain.cause import Cause
from operator_protocols.ports import Plugin, SubjectSettings
from operator_sre.subjects.declarative.subject import DeclarativeSubject, causes_of
from tests.subjects.bed.rig import bed_rig

__all__ = ["DESCRIPTION", "plugin", "text_of"]

DESCRIPTION = Path(__file__).with_name("bed.yaml")
SECTIONS = ("TARGETS", "INVARIANTS", "CAUSES", "LEVERS")


def text_of(**sections: str) -> str:
    """The description with these sections, each in its place."""
    text = DESCRIPTION.read_text(encoding="utf-8")
    for name in SECTIONS:
        text = text.replace(f"#{name}#", sections.get(name.lower(), ""))
    return text


# The sections that are left out are comments, so that the file is a description as it is.
_OPTIONS: Mapping[str, Any] = {"file": str(DESCRIPTION)}


def _causes(options: Mapping[str, Any]) -> Sequence[Cause]:
    return causes_of(_OPTIONS)


def _subject(settings: SubjectSettings) -> DeclarativeSubject:
    return DeclarativeSubject(replace(settings, options=_OPTIONS))


plugin = Plugin(
    name="bed",
    sentence="The test bed of foreign systems.",
    subject=_subject,
    rig=bed_rig,
    causes_of=_causes,
)
