"""The runner: one long-lived process for each home that starts commands and outlives its operator.

Only it starts them, so the process after a killed operator can ask for the outcome of each.
"""
