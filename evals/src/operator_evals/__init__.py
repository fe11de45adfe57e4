"""MEASURE IT: break real systems in many ways, let any mind repair them, and count what holds."""
