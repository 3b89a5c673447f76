"""Slack, through Socket Mode and the Web API.

`config` the section; `channel` the life cycle; `connection` what runs while Slack is connected: `socket` the
WebSocket, `dispatch` the Bolt app, `receiving` what is done with each thing told, `catchup` what a gap swallowed;
`events` and `content` what a payload says; `positions` and `threads` what is remembered; `people` names and time
zones; `sending`, `drafts`, `lookup`, `feedback`, `status` and `media` the way out; `rendering`, `markdown` and `tables`
how text is shown; `api` the only file that calls the Web API. What needs the SDK is imported when the channel starts.
"""

from __future__ import annotations

from channels.slack.channel import SlackChannel

__all__ = ["SlackChannel"]
