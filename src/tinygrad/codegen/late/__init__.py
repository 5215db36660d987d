"""The passes from an optimised kernel AST down to the linear instruction list."""
