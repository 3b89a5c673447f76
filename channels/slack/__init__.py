"""Slack, through Socket Mode and the Web API.

`config` the section; `channel` the life cycle; `socket` the connection events come by; `dispatch` and `receiving`
what is done with each; `events` and `content` what an event says; `positions`, `threads` and `catchup` what was
seen and what a gap swallowed; `sending`, `drafts`, `lookup` and `rendering` the way out; `media` files both ways;
`people` names and time zones; `api` the only file that calls the Web API, imported when the channel starts.
"""

from __future__ import annotations

from channels.slack.channel import SlackChannel

__all__ = ["SlackChannel"]
