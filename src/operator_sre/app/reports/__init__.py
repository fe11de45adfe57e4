"""An incident as a report: its facts, and their renderings for people."""

from __future__ import annotations

from operator_sre.app.reports.gathering import report_of
from operator_sre.app.reports.html import as_html
from operator_sre.app.reports.markdown import as_markdown
from operator_sre.app.reports.report import Report
from operator_sre.app.reports.writing import write_report

__all__ = ["Report", "as_html", "as_markdown", "report_of", "write_report"]
