"""What runs on this machine, and the subjects that it suggests. It reads and changes nothing."""

from __future__ import annotations

from operator_sre.app.discovery.discover import Discovery, LeftOut, Proposal, discover
from operator_sre.app.discovery.settings_file import WrittenSubjects, write_subjects

__all__ = ["Discovery", "LeftOut", "Proposal", "WrittenSubjects", "discover", "write_subjects"]
