"""Searching with ripgrep: finding its program, running it inside of one chat's files, reading what it finds.

What a tool makes of the findings is the tool's part; which files a chat may see is decided in
`bot/security/workspace.py`.
"""
