"""How a change that a model describes is brought onto a file's text: pure functions, no file is opened here."""
