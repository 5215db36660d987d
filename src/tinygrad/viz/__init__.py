"""The visualiser: rewrites step by step, kernels, and a timeline of what ran, in a page served on this machine only.

`VIZ=1 python program.py` records, and serves the page when the program ends; `python -m tinygrad.viz.serve` serves the last
recording again. Nothing here is imported while recording is off.
"""
