"""The runner: one long-lived process for each home that starts commands and outlives its operator.

Only it starts them, so whoever comes after an operator that was killed can ask what became of each.
"""
