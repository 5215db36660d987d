"""Comparisons with other libraries: PyTorch, ONNX Runtime and what `make oracle` installs.

Not part of `make test` (`norecursedirs` in pyproject.toml): a missing library is an error here, never
a skip.
"""
