"""What a diagnosis has to have before it counts. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from operator_protocols.domain.diagnosis import Diagnosis, Evidence
from operator_protocols.domain.run import Diagnose, Misuse

__all__ = ["checked"]


def checked(call: Diagnose, citable: Collection[int]) -> Diagnose | Misuse:
    """The diagnosis with each claim marked as one, or what it lacks.

    `citable` are the entries that show something: looks, results and proofs of this run. A sentence
    that points anywhere else has nothing to back it.
    """
    missing = _missing(call.diagnosis)
    if missing:
        why = f"The diagnosis was not taken: {' and '.join(missing)}. Hand in a whole one."
        return Misuse("diagnose", call.diagnosis.summary, why)
    diagnosis = replace(
        call.diagnosis,
        timeline=tuple(_backed(one, citable) for one in call.diagnosis.timeline),
        evidence=tuple(_backed(one, citable) for one in call.diagnosis.evidence),
    )
    return call if diagnosis == call.diagnosis else Diagnose(diagnosis)


def _missing(diagnosis: Diagnosis) -> list[str]:
    lacks = {
        "it names no cause": not diagnosis.cause.strip(),
        "it has no evidence": not any(one.sentence.strip() for one in diagnosis.evidence),
        "it does not say what else it could have been": not any(
            one.cause.strip() and one.why_rejected.strip() for one in diagnosis.alternatives
        ),
    }
    return [what for what, lacking in lacks.items() if lacking]


def _backed(evidence: Evidence, citable: Collection[int]) -> Evidence:
    return evidence if evidence.seq in citable else replace(evidence, seq=None)
