"""Programs built on the package."""
