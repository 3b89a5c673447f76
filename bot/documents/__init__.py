"""Text of PDF and office files, extracted by processes that a hostile file cannot misuse.

`contract.py` has the values and errors, `reading.py` what callers use, `worker.py` what runs in the process of
its own; the other modules are the formats. Only the worker imports the libraries of the formats.
"""
