"""The tool machinery: what a tool is, how its calls are checked and run, how tools are found.

The tools themselves live in `bot/tools/`; which of them a turn may use is decided in `bot/access/`.
"""
