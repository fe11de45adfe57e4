"""How a story begins: what is watched, by whom, what may be done, and how it is found."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from pathlib import Path

import pytest

from operator_sre.app.story import beginning, first_look
from operator_sre.app.wiring.controls import build_controls
from operator_sre.controls import Surroundings
from tests.app.home import SUBJECTS, opened


def test_it_says_what_is_watched_by_whom_and_what_may_be_done(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS, interval_s="7") as app:
        lines = beginning(app, ["shop"])
        assert [(line.step, line.text) for line in lines] == [
            ("watch", f"shop is checked every 7 s by {socket.gethostname()}:{os.getpid()}"),
            ("decide", "shop: mode observe, proposes changes and executes none"),
            ("think", "tickets are worked on by reasoner"),
        ]
        assert [line.step for line in beginning(app, ["shop"], works=False)] == ["watch"]


@pytest.mark.parametrize(
    ("mode", "says"), [("approve", "requires approval"), ("execute", "what the policy allows")]
)
def test_each_mode_says_what_it_means(tmp_path: Path, mode: str, says: str) -> None:
    with opened(tmp_path, SUBJECTS, mode=mode) as app:
        assert says in beginning(app, ["shop"])[1].text


@pytest.mark.asyncio
async def test_how_a_subject_is_found_is_told_after_the_first_look(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        before = app.clock.now() - timedelta(seconds=1)
        assert first_look(app, "shop", before) is None
        pipeline = app.engine().pipeline
        await pipeline.monitor.check(pipeline.controls("shop").subject)
        found = first_look(app, "shop", before)
        assert found is not None
        assert found.tone == "bad", "nothing listens there"
        assert found.text.startswith("shop is ")
        assert first_look(app, "shop", app.clock.now() + timedelta(seconds=1)) is None


def test_controls_know_their_subject_and_its_surroundings(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        assert isinstance(app.surroundings, Surroundings)
        assert build_controls(app, "shop").subject.name == "shop"
