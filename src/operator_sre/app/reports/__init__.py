"""An incident as a report: its facts, and their renderings for people."""

from __future__ import annotations

from operator_sre.app.reports.assembly import report_of
from operator_sre.app.reports.formats import as_html, as_markdown, write_report
from operator_sre.app.reports.report import Report

__all__ = ["Report", "as_html", "as_markdown", "report_of", "write_report"]
