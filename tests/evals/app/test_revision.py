"""A campaign records which code was measured."""

from __future__ import annotations

from pathlib import Path

from operator_evals.app.campaigns import begin_campaign
from operator_evals.campaign import Campaign, Variant
from operator_evals.database import open_database
from operator_sre.clock import SystemClock
from operator_sre.release import code_revision


def test_a_campaign_says_which_code_it_was_begun_with(tmp_path: Path) -> None:
    campaign = Campaign("c", (), (Variant("reasoner"),), {"reasoner": 1})
    with open_database(tmp_path / "eval.db") as facts:
        begin_campaign(facts, campaign, SystemClock())
        assert facts.campaign("c").machine["revision"] == code_revision()
