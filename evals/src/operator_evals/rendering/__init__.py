"""Campaigns and trials as pages: facts and analysis in, HTML out. Pure."""

from __future__ import annotations

from operator_evals.rendering.campaign_page import (
    Shown,
    campaign_body,
    campaigns_body,
    problem_body,
)
from operator_evals.rendering.cells import OneFile, Places, Served
from operator_evals.rendering.report import STYLE, report_page, whole
from operator_evals.rendering.trial_page import trial_body
from operator_sre.drawing.html import Html

__all__ = [
    "STYLE",
    "Html",
    "OneFile",
    "Places",
    "Served",
    "Shown",
    "campaign_body",
    "campaigns_body",
    "problem_body",
    "report_page",
    "trial_body",
    "whole",
]
