"""The demo: a real cluster is broken, and what follows is told."""

from __future__ import annotations

from operator_sre.app.demo.chapters import CHAPTERS, Chapter, Step, named
from operator_sre.app.demo.events import (
    Begun,
    Count,
    Ending,
    Event,
    Look,
    Part,
    Picture,
    Said,
    Told,
)
from operator_sre.app.demo.play import Cue, Plan, choose_fault, play, sentence_of, straight_on

__all__ = [
    "CHAPTERS",
    "Begun",
    "Chapter",
    "Count",
    "Cue",
    "Ending",
    "Event",
    "Look",
    "Part",
    "Picture",
    "Plan",
    "Said",
    "Step",
    "Told",
    "choose_fault",
    "named",
    "play",
    "sentence_of",
    "straight_on",
]
