"""Graph runners at the import paths users know."""
