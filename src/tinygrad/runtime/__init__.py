"""Device runtimes at the import paths users know; each `ops_<dev>` re-exports from its backend folder."""
