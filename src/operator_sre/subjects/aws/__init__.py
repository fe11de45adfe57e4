"""Amazon Web Services: instances, volumes and Auto Scaling groups of one account and region."""

from __future__ import annotations

from operator_protocols.ports import Plugin
from operator_sre.subjects.aws.subject import AwsRegion
from operator_sre.subjects.aws.tools import KNOWLEDGE, aws_tools

__all__ = ["plugin"]

plugin = Plugin(
    name="aws",
    sentence="AWS: EC2 instances, their status checks and volumes, Auto Scaling groups.",
    subject=AwsRegion,
    causes=KNOWLEDGE.causes,
    notes=KNOWLEDGE.notes,
    tools=aws_tools,
    requires=KNOWLEDGE.requires,
)
