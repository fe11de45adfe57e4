"""Generated faults: composed from primitives over a rig, judged by what its clients see."""
