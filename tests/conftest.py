"""What holds for every test: graphs are verified after every pass of the scheduler and of the lowering."""

import os

# read when tinygrad is imported, which no test file does before this one is loaded
os.environ.setdefault("SPEC", "2")
