"""Random tensor programs with NumPy as the judge. `python tests/fuzz --help` runs them.

| module | what it is |
|---|---|
| `memory` | the model: arrays that lie in memory, so that views and writes mean what they mean |
| `operations` | one row an operation: its source text, its meaning in NumPy, how to draw one |
| `program` | a program as data: inputs, steps, outputs; its text; what it gives by the model |
| `generator` | draws programs from a seed |
| `driver` | runs the text of a program on tensors and compares; a failure's file is this module and the program |
| `modes` | the ways of running |
| `shrinker` | makes a failing program small, and writes the file |
"""
