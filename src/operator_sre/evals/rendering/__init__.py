"""Campaigns and trials as pages: facts and analysis in, HTML out. Pure."""

from __future__ import annotations

from operator_sre.evals.rendering.campaign_page import campaign_body
from operator_sre.evals.rendering.campaigns_page import Shown, campaigns_body, problem_body
from operator_sre.evals.rendering.elements import Html
from operator_sre.evals.rendering.places import OneFile, Places, Served
from operator_sre.evals.rendering.report import STYLE, report_page, whole
from operator_sre.evals.rendering.trial_page import trial_body

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
