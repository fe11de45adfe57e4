"""The real rig: every class of failure is produced, found and explained; calm opens nothing."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from operator_lab.kubernetes.build import find_programs, missing_tools
from operator_lab.rig import Rig
from operator_sre.subjects.kubernetes.rig import rig
from tests.subjects.kubernetes.rig.calm import run_calm
from tests.subjects.kubernetes.rig.cases import CASES
from tests.subjects.kubernetes.rig.trial import Trial

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.system,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        find_programs() is None or bool(missing_tools(nodes=True)) or os.geteuid() != 0,
        reason="needs `operator lab up kubernetes` to have built the cluster, and root",
    ),
]
# A new autoscaler may be without metrics for 20 s; a claim is judged when it is 5 s old.
LATE = {"autoscaler-blind"}
RIGHT_MIN = 0.9


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Trial]:
    """The rig, and a subject that watches it."""
    made = await Rig.up(rig(), tmp_path / "rig", owned=True)
    trial = Trial(tmp_path / "rig")
    try:
        yield trial
    finally:
        await trial.close()
        await made.down()


async def test_classes_of_failures_are_found_soon_and_explained(cluster: Trial) -> None:
    scores = [await cluster.run(case) for case in CASES]
    wrong = [(each.case.name, each.cause, each.blamed) for each in scores if not each.right]
    assert len(wrong) <= (1 - RIGHT_MIN) * len(scores), wrong
    late = {each.case.name: each.detected_s for each in scores if not each.soon}
    assert len(set(late) - LATE) <= (1 - RIGHT_MIN) * len(scores), late


async def test_a_healthy_cluster_opens_nothing_and_loses_no_write(
    cluster: Trial, tmp_path: Path
) -> None:
    assert await run_calm(cluster) == set()
    report = json.loads((tmp_path / "rig" / "customers" / "report.json").read_text())
    assert report["acknowledged"] > 0
    assert report["lost"] == 0
