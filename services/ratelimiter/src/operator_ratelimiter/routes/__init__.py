"""The HTTP faces of a node: one file for callers, one for managers, one for watchers."""
