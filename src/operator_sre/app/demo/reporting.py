"""What is left to read when a demo is over."""

from __future__ import annotations

from importlib.util import find_spec

from operator_sre.app.demo.events import Ending
from operator_sre.app.wiring import App

__all__ = ["report_text"]


def report_text(app: App, ending: Ending) -> str:
    """The report of the incident as Markdown, or its figures where there is no ticket."""
    if ending.ticket is not None and find_spec("operator_sre.app.reports") is not None:
        from operator_sre.app.reports import as_markdown, report_of

        return as_markdown(report_of(app, ending.ticket.id))
    return _figures(ending)


def _figures(ending: Ending) -> str:
    verdict = "resolved with a proof" if ending.proven else "NOT resolved"
    figures = {
        "time to detect": ending.detect_s,
        "time to repair": ending.repair_s,
        "time to proof": ending.proof_s,
    }
    lines = [f"- {name}: {value:.1f} s" for name, value in figures.items() if value is not None]
    summary = "" if ending.ticket is None else f": {ending.ticket.summary}"
    return "\n".join([f"# The incident was {verdict}", "", f"{ending.target}{summary}", "", *lines])
