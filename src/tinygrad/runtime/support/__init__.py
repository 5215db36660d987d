"""Parts that several device runtimes share."""
