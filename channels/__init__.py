"""Chat platforms, one module or package each; the engine finds them by name."""
