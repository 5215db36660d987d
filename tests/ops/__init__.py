"""Every Tensor method against NumPy: values, dtypes, shapes, edge values and errors.

`values` gives dtypes, shapes and edge values, `oracle` compares. Tables of rows (a method, how it is
called, its NumPy reference, its dtypes and bounds) are in the `table_*` modules; `test_complete`
fails where a public method is in none of them. References are computed in float64 or wider.
"""
