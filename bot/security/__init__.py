"""Pure walls: each module here refuses something and nothing else; none of them knows the engine.

They are checked in code, at the last place before the effect, and never rely on what a model was told.
"""
