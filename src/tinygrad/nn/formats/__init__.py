"""Readers and writers of model files; `tinygrad.nn.state` re-exports what users call."""
