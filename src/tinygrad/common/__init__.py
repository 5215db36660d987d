"""What every layer may use: environment switches, containers, text, raw memory, the disk cache, profiling, progress.

`tinygrad.helpers` re-exports all of it under the names users import.
"""
