"""Bindings of C libraries at the import paths that users know."""
