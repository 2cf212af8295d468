"""EIBench: emotion management in four scenes, scored between anchors (paper: EIBench)."""
