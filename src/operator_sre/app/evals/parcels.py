"""What goes to a worker and what comes back, as texts of bounded size. No key is ever in them."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, replace
from pathlib import Path

from operator_protocols.errors import RigError, UsageError
from operator_sre.codec import from_json, to_json
from operator_sre.evals.campaign import Campaign, Mind, Planned
from operator_sre.evals.facts import TrialFacts

__all__ = ["Order", "order_from", "order_of", "packed", "unpacked"]

TRANSCRIPT_BYTES_MAX = 1 << 20
FACTS_BYTES_MAX = 4 << 20
LEDGER_BYTES_MAX = 16 << 20
_MB = 1 << 20


@dataclass(frozen=True, slots=True)
class Order:
    """One trial for a worker; of the campaign only what this trial needs.

    `transcript` is the text of the variant's transcript, because its file is not there.
    """

    campaign: Campaign
    planned: Planned
    transcript: str = ""


@dataclass(frozen=True, slots=True)
class _Parcel:
    """What comes back; `ledger` is the exported ledger in base64, or "" where there is none."""

    facts: TrialFacts
    ledger: str = ""


def order_of(campaign: Campaign, planned: Planned) -> str:
    """The text that a worker is given."""
    variant = next(one for one in campaign.variants if one.name == planned.variant)
    own = replace(
        campaign,
        scenarios=(planned.scenario,),
        variants=(variant,),
        seeds={variant.name: 1},
        first_seed=planned.seed,
    )
    text = _transcript(variant.transcript) if variant.mind is Mind.TRANSCRIPT else ""
    return json.dumps(to_json(Order(own, planned, text)))


def order_from(text: str) -> Order:
    """The order that a text holds; RigError for one that nobody could have given."""
    try:
        return from_json(Order, json.loads(text))
    except ValueError as error:
        raise RigError(f"The order cannot be read: {error}.") from error


def packed(facts: TrialFacts, bundle: Path) -> str:
    """The text that goes back: the facts, and the ledger where it is not too large."""
    ledger = ""
    if facts.ledger and bundle.is_file():
        size = bundle.stat().st_size
        if size <= LEDGER_BYTES_MAX:
            ledger = base64.b64encode(bundle.read_bytes()).decode()
        else:
            facts = _without_ledger(facts, f"with {size / _MB:.0f} MB it is too large to be sent")
    text = json.dumps(to_json(_Parcel(facts, ledger)))
    if len(text) - len(ledger) > FACTS_BYTES_MAX:
        facts = replace(facts, course=())  # looks in between are for charts alone
        text = json.dumps(to_json(_Parcel(facts, ledger)))
    if (size := len(text) - len(ledger)) > FACTS_BYTES_MAX:
        raise RigError(f"The facts of the trial are too large to be sent: {size / _MB:.1f} MB.")
    return text


def unpacked(text: str, campaign: str, planned: Planned, ledger: Path, named: str) -> TrialFacts:
    """The facts of the trial that was asked for; its ledger is written to `ledger`.

    `named` is how that file is called from where the database lies.
    """
    if len(text) > FACTS_BYTES_MAX + 2 * LEDGER_BYTES_MAX:
        raise RigError("What came back of the trial is too large.")
    try:
        parcel = from_json(_Parcel, json.loads(text))
        bundle = base64.b64decode(parcel.ledger, validate=True)
    except (ValueError, binascii.Error) as error:
        raise RigError(f"What came back of the trial cannot be read: {error}.") from error
    facts = parcel.facts
    if (facts.campaign, facts.key, facts.scenario) != (campaign, planned.key, planned.scenario):
        raise RigError(f"Another trial came back than was asked for: {facts.key!r}.")
    if not bundle:
        return replace(facts, ledger="")
    ledger.parent.mkdir(parents=True, exist_ok=True)
    whole = ledger.with_suffix(".part")
    whole.write_bytes(bundle)
    whole.replace(ledger)
    return replace(facts, ledger=named)


def _without_ledger(facts: TrialFacts, why: str) -> TrialFacts:
    told = f"its ledger stayed where it was: {why}"
    return replace(facts, ledger="", why=f"{facts.why}; {told}" if facts.why else told)


def _transcript(path: str) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"The transcript {path!r} cannot be read: {error}.") from error
    if len(text.encode()) > TRANSCRIPT_BYTES_MAX:
        raise UsageError(f"The transcript {path!r} is larger than {TRANSCRIPT_BYTES_MAX} bytes.")
    return text
