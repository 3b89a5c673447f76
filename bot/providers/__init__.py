"""Model providers, found by name; they never import each other."""
