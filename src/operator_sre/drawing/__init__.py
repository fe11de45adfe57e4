"""Text, HTML and charts for people: input is escaped, charts need no script. Pure."""

from __future__ import annotations

from operator_sre.drawing.charts import Chart, Mark, Point, Tick, charts
from operator_sre.drawing.html import (
    escape_text,
    figure,
    format_reading,
    page,
    plural,
    policy_of,
    span,
    style_of,
    visible,
)

__all__ = [
    "Chart",
    "Mark",
    "Point",
    "Tick",
    "charts",
    "escape_text",
    "figure",
    "format_reading",
    "page",
    "plural",
    "policy_of",
    "span",
    "style_of",
    "visible",
]
