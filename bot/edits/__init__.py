"""Changes of text files: where an edit or a hunk belongs, and changes of several files as one act.

The tools are above, the walls of the workspace below in `bot/security`.
"""
