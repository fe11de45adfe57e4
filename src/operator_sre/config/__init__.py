"""Settings: defaults, then operator.toml, then OPERATOR_* variables, then flags."""

from __future__ import annotations

from operator_sre.config.models import ModelConfig
from operator_sre.config.service import ADDRESSES, PARTS, ServiceConfig
from operator_sre.config.settings import (
    SETTINGS,
    TABLES,
    Config,
    Setting,
    load_config,
    reread_subjects,
)
from operator_sre.config.subjects import SubjectConfig, seconds_of
from operator_sre.config.tables import NoticeConfig

__all__ = [
    "ADDRESSES",
    "PARTS",
    "SETTINGS",
    "TABLES",
    "Config",
    "ModelConfig",
    "NoticeConfig",
    "ServiceConfig",
    "Setting",
    "SubjectConfig",
    "load_config",
    "reread_subjects",
    "seconds_of",
]
