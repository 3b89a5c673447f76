"""The agent: what turns an accepted message into model calls, tool calls and an answer."""
