"""The demo: a real cluster is broken, and every step that follows is shown."""

from __future__ import annotations

from operator_lab.demo.play import Cue, Plan, choose_fault, play, sentence_of, straight_on
from operator_lab.demo.story import (
    CHAPTERS,
    Begun,
    Chapter,
    Count,
    Ending,
    Event,
    Look,
    Part,
    Picture,
    Said,
    Step,
    Told,
    name_chapter,
)

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
    "name_chapter",
    "play",
    "sentence_of",
    "straight_on",
]
