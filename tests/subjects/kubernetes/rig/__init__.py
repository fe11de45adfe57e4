"""Failures that are produced on the real rig, and what Operator must say about each."""
