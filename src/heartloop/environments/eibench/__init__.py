"""EIBench: emotion management on four scenes, scored by anchors (paper: EIBench).

Does not cover turn credit for training (`scoring.credit`, with training).
"""
