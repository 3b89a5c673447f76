"""Searching the web: one small module per engine behind one protocol, and the order in which they are asked.

`WebSearch` (`chain.py`) is all that callers need. An engine (`engine.py` has the protocol) gives what it found as it
stands; cleaning is in `hits.py`, marks around what a model reads are the caller's.
"""
