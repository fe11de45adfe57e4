"""Settings: defaults, then operator.toml, then OPERATOR_* variables, then flags."""

from __future__ import annotations

from operator_sre.config.settings import SETTINGS, Config, Setting, load_config
from operator_sre.config.subjects import SubjectConfig

__all__ = ["SETTINGS", "Config", "Setting", "SubjectConfig", "load_config"]
