"""Lets the tests of the core import their reference model."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
