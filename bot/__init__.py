"""The engine of Dutiful: everything between a chat platform and a model."""

__version__ = "0.1.0"
