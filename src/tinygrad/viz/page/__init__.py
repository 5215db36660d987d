"""The files of the page, which `tinygrad.viz.serve` sends to the browser. A package so that they are installed with it."""
