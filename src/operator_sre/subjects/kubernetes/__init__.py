"""Kubernetes: diagnoses what was recorded of a cluster. It does not watch one yet."""

from operator_sre.subjects.kubernetes.reader import RecordReader

__all__ = ["reader"]

reader = RecordReader()
