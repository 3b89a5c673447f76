"""Which files a turn sees: the root of its file tools comes from its chat, never from a tool or a path."""

from __future__ import annotations

from pathlib import Path

from bot.messages import Address, ChatType, Role
from bot.security.workspace import WorkspaceView
from bot.toolkit.context import RequestContext


def workspace_of(request: RequestContext, workspace: Path) -> WorkspaceView:
    """Return the view of a turn: its chat's folder and `shared`; all chats in an owner's private chat."""
    all_chats = request.role is Role.OWNER and request.chat_type is ChatType.PRIVATE
    return WorkspaceView.of(workspace, chat_key(request.address), all_chats=all_chats)


def chat_key(address: Address) -> str:
    """Return the key of the folder that a chat and all its threads share."""
    return address.rate_key
