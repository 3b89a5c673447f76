"""The people's side of the Slack server: what a test lets them say, edit, delete, press, command and join.

Events and payloads: https://docs.slack.dev/reference/events, /reference/interaction-payloads/block_actions-payload
and /interactivity/implementing-slash-commands (read 2026-11-30).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.platforms.slack_objects import (
    ADA,
    APP_ID,
    BOT_ID,
    BOT_USER_ID,
    TEAM_DOMAIN,
    TEAM_ID,
    Conversation,
    Json,
    Kind,
    Person,
    StoredFile,
    rich_text,
)
from tests.platforms.slack_socket import Envelope, SocketMode
from tests.platforms.slack_world import World

ALL_EVENTS = frozenset(
    {
        *("message.im", "message.channels", "message.groups", "message.mpim", "app_mention", "app_home_opened"),
        *("member_joined_channel", "member_left_channel", "reaction_added", "reaction_removed"),
        *("assistant_thread_started", "assistant_thread_context_changed", "tokens_revoked", "app_uninstalled"),
    }
)
_SCOPE_OF_KIND = {Kind.IM: "im", Kind.CHANNEL: "channels", Kind.GROUP: "groups", Kind.MPIM: "mpim"}


class People:
    """Acts of people. What they say is told to the app if it subscribed to it and is in the conversation."""

    def __init__(self, world: World, socket: SocketMode) -> None:
        self.world = world
        self.socket = socket
        self.subscriptions: set[str] = set(ALL_EVENTS)
        self.said_last = ""  # ts of what was said, edited or deleted last
        self._acts: list[Envelope] = []  # of the latest act
        self._acting = False

    # --- the stage

    def add_user(
        self,
        user_id: str = ADA,
        name: str = "ada",
        *,
        real_name: str = "",
        tz: str = "Europe/Berlin",
        is_bot: bool = False,
        deleted: bool = False,
    ) -> Person:
        """Let a person (or another app's bot) exist."""
        person = Person(
            id=user_id, name=name, real_name=real_name or name.title(), tz=tz, is_bot=is_bot, deleted=deleted
        )
        return self.world.add_person(person)

    def add_dm(self, user_id: str = ADA, channel_id: str = "") -> str:
        """Let a person have a DM with the bot; return the channel's id."""
        if user_id not in self.world.people:
            self.add_user(user_id, user_id.lower())
        if not channel_id:
            return self.world.im_with(user_id).id
        made = Conversation(id=channel_id, kind=Kind.IM, user=user_id, members={user_id, BOT_USER_ID})
        return self.world.add_conversation(made).id

    def add_channel(
        self,
        channel_id: str,
        name: str = "",
        *,
        private: bool = False,
        group_dm: bool = False,
        members: Sequence[str] = (ADA,),
        with_bot: bool = True,
    ) -> str:
        """Let a channel exist; return its id."""
        kind = Kind.MPIM if group_dm else Kind.GROUP if private else Kind.CHANNEL
        inside = {*members, *([BOT_USER_ID] if with_bot else [])}
        for user_id in members:
            if user_id not in self.world.people:
                self.add_user(user_id, user_id.lower())
        made = Conversation(id=channel_id, kind=kind, name=name or channel_id.lower(), members=inside)
        return self.world.add_conversation(made).id

    def add_thread(self, channel_id: str, text: str = "root", *, user_id: str = ADA, ts: str = "") -> str:
        """Let a message exist that the app is not told of, to begin a thread with; return its ts."""
        body = {"user": user_id, "text": text, "team": TEAM_ID, "blocks": rich_text(text)}
        return str(self.world.put(self._place(channel_id, user_id), body, ts=ts, told=False)["ts"])

    def archive(self, channel_id: str, *, archived: bool = True) -> None:
        """Archive a channel, or bring it back."""
        self.world.conversations[channel_id].archived = archived

    def mention(self, text: str = "") -> str:
        """Return `text` addressed to the bot."""
        return f"<@{BOT_USER_ID}> {text}".rstrip()

    # --- what they do

    def user_says(
        self,
        channel_id: str,
        text: str = "",
        *,
        user_id: str = ADA,
        thread_ts: str | None = None,
        files: Sequence[tuple[str, bytes] | StoredFile] = (),
        broadcast: bool = False,
        subtype: str = "",
        ts: str = "",
        extra: Mapping[str, Any] | None = None,
    ) -> str:
        """A person writes; return the message's ts. `text` is as Slack hands it out (`<@U…>`, `&amp;`).

        A mention of the bot makes an app_mention event beside the message event, for the same ts. `files` are
        (name, content) or files of `add_file`. An unknown DM or person comes to be.
        """
        conversation = self._place(channel_id, user_id)
        stored = [self.add_file(*item, user_id=user_id) if isinstance(item, tuple) else item for item in files]
        body: Json = {"user": user_id, "text": text, "team": TEAM_ID}
        if text:
            body["blocks"] = rich_text(text)
        body["client_msg_id"] = f"00000000-0000-4000-8000-{self.world.serial():012d}"
        if stored:
            body |= {"upload": True, "files": [item.to_json(self.world.origin) for item in stored]}
        kind = subtype or ("file_share" if stored else "thread_broadcast" if broadcast else "")
        if kind:
            body["subtype"] = kind
        body |= extra or {}
        with_act = self._begin()
        message = self.world.put(conversation, body, thread_ts=thread_ts, ts=ts)
        self.world.share(conversation, message, stored)
        if f"<@{BOT_USER_ID}>" in text and conversation.kind is not Kind.IM and conversation.has_bot:
            kept = ("user", "text", "team", "blocks", "client_msg_id", "files", "upload", "thread_ts", "parent_user_id")
            mention: Json = {"type": "app_mention", "ts": message["ts"], "channel": channel_id}
            mention |= {key: message[key] for key in kept if key in message} | {"event_ts": message["ts"]}
            self.tell(mention, ts=message["ts"])
        self._end(with_act, str(message["ts"]))
        return str(message["ts"])

    def other_bot_says(
        self, channel_id: str, text: str, *, thread_ts: str | None = None, bot_id: str = "B0OTHER0001"
    ) -> str:
        """Another app writes by its webhook: subtype bot_message, no user; return the ts."""
        conversation = self.world.conversations[channel_id]
        body: Json = {"subtype": "bot_message", "text": text, "username": "other", "bot_id": bot_id}
        with_act = self._begin()
        message = self.world.put(conversation, body, thread_ts=thread_ts)
        self._end(with_act, str(message["ts"]))
        return str(message["ts"])

    def edit(self, channel_id: str, ts: str, text: str) -> None:
        """A person changes a message of theirs."""
        conversation = self.world.conversations[channel_id]
        before = conversation.messages[ts]
        edited = {"user": before["user"], "ts": self.world.new_ts()}
        changed = {**before, "text": text, "blocks": rich_text(text), "edited": edited}
        with_act = self._begin()
        self.world.change(conversation, ts, changed)
        self._end(with_act, ts)

    def unfurl(self, channel_id: str, ts: str, url: str = "https://example.org/") -> None:
        """Slack adds the preview of a link: a message_changed event, but nobody edited anything."""
        conversation = self.world.conversations[channel_id]
        preview = {"id": 1, "from_url": url, "original_url": url, "fallback": "Example", "title": "Example"}
        with_act = self._begin()
        self.world.change(conversation, ts, {**conversation.messages[ts], "attachments": [preview]})
        self._end(with_act, ts)

    def delete(self, channel_id: str, ts: str) -> None:
        """A person deletes a message."""
        with_act = self._begin()
        self.world.remove(self.world.conversations[channel_id], ts)
        self._end(with_act, ts)

    def react(self, channel_id: str, ts: str, name: str, *, user_id: str = ADA, added: bool = True) -> None:
        """A person puts a reaction under a message, or takes it away."""
        message = self.world.conversations[channel_id].messages[ts]
        kind = "reaction_added" if added else "reaction_removed"
        item = {"type": "message", "channel": channel_id, "ts": ts}
        event = {"type": kind, "user": user_id, "reaction": name, "item_user": message.get("user"), "item": item}
        with_act = self._begin()
        self.tell(event | {"event_ts": self.world.new_ts()}, ts=ts)
        self._end(with_act, ts)

    def press(self, channel_id: str, ts: str, wanted: str, *, user_id: str = ADA) -> Envelope:
        """A person presses the button with this action id, value or label under a message of the bot."""
        message = self.world.conversations[channel_id].messages[ts]
        offered = [
            (block["block_id"], element)
            for block in message.get("blocks", [])
            for element in [*block.get("elements", []), block.get("accessory") or {}]
            if isinstance(element, dict) and element.get("type") == "button"
        ]
        for block_id, button in offered:
            if wanted in {button.get("action_id"), button.get("value"), button["text"]["text"]}:
                return self._pressed(channel_id, message, block_id, button, user_id)
        labels = [button["text"]["text"] for _, button in offered]
        raise ValueError(f"message {ts} has no button {wanted!r}, only {labels}")

    def _pressed(self, channel_id: str, message: Json, block_id: str, button: Json, user_id: str) -> Envelope:
        place: Json = {"type": "message", "message_ts": message["ts"], "channel_id": channel_id, "is_ephemeral": False}
        if "thread_ts" in message:
            place["thread_ts"] = message["thread_ts"]
        action: Json = {key: button[key] for key in ("type", "action_id", "text", "value", "style") if key in button}
        action |= {"block_id": block_id, "action_ts": self.world.new_ts()}
        action.setdefault("action_id", "none")
        payload: Json = {
            "type": "block_actions",
            "user": self._who(user_id),
            "api_app_id": APP_ID,
            "token": "verification",
            "container": place,
            "trigger_id": f"{self.world.serial()}.1.trigger",
            "team": {"id": TEAM_ID, "domain": TEAM_DOMAIN},
            "enterprise": None,
            "is_enterprise_install": False,
            "channel": {"id": channel_id, "name": self._channel_name(channel_id)},
            "message": message,
            "state": {"values": {}},
            "response_url": self._response_url(channel_id, user_id, str(message["ts"])),
            "actions": [action],
        }
        return self.socket.publish("interactive", payload, ts=str(message["ts"]))

    def command(self, channel_id: str, command: str, text: str = "", *, user_id: str = ADA) -> Envelope:
        """A person uses a slash command."""
        self._place(channel_id, user_id)
        payload = {
            "token": "verification",
            "team_id": TEAM_ID,
            "team_domain": TEAM_DOMAIN,
            "channel_id": channel_id,
            "channel_name": self._channel_name(channel_id),
            "user_id": user_id,
            "user_name": self.world.people[user_id].name,
            "command": command,
            "text": text,
            "api_app_id": APP_ID,
            "is_enterprise_install": "false",
            "response_url": self._response_url(channel_id, user_id, ""),
            "trigger_id": f"{self.world.serial()}.2.trigger",
        }
        return self.socket.publish("slash_commands", payload)

    def join(self, channel_id: str, user_id: str = BOT_USER_ID, *, inviter: str = ADA) -> None:
        """A person, or the bot, comes into a channel."""
        conversation = self.world.conversations[channel_id]
        conversation.members.add(user_id)
        event = {"type": "member_joined_channel", "user": user_id, "channel": channel_id, "team": TEAM_ID}
        event |= {"channel_type": channel_id[0], "inviter": inviter, "event_ts": self.world.new_ts()}
        self.tell(event)

    def remove_bot(self, channel_id: str) -> None:
        """The bot is removed from a channel; it hears no more of it."""
        self.world.conversations[channel_id].members.discard(BOT_USER_ID)

    def open_home(self, user_id: str = ADA, *, tab: str = "messages") -> None:
        """A person looks at the app's home or messages tab."""
        channel = self.add_dm(user_id)
        event = {"type": "app_home_opened", "user": user_id, "channel": channel, "tab": tab}
        self.tell(event | {"event_ts": self.world.new_ts()})

    def open_assistant(self, user_id: str = ADA) -> str:
        """A person opens a thread with the assistant; return its thread_ts."""
        conversation = self.world.conversations[self.add_dm(user_id)]
        root: Json = {"subtype": "assistant_app_thread", "text": "New Assistant Thread"}
        root |= {"user": BOT_USER_ID, "bot_id": BOT_ID, "team": TEAM_ID}
        ts = str(self.world.put(conversation, root)["ts"])
        thread = {"user_id": user_id, "context": {}, "channel_id": conversation.id, "thread_ts": ts}
        self.tell({"type": "assistant_thread_started", "assistant_thread": thread, "event_ts": self.world.new_ts()})
        return ts

    def add_file(
        self, name: str, content: bytes, *, user_id: str = ADA, size_bytes: int | None = None, mimetype: str = ""
    ) -> StoredFile:
        """Put a person's file on the platform's disk, perhaps claiming another size."""
        size = len(content) if size_bytes is None else size_bytes
        return self.world.add_file(name=name, user=user_id, content=content, size_bytes=size, mimetype=mimetype)

    # --- what the platform makes of it

    def redeliver(self, ts: str = "") -> None:
        """Send the events of one message (of the latest act) once more, acknowledged or not."""
        chosen = [e for e in self.socket.envelopes if e.ts == ts and not e.own] if ts else list(self._acts)
        for envelope in chosen:
            if envelope.kind == "events_api":
                self.socket.redeliver(envelope)

    def is_acknowledged(self, ts: str = "") -> bool:
        """Say whether the app acknowledged what people did: about one message, or all of it."""
        return not self.socket.unacknowledged(ts)

    def push_raw(self, event: Json) -> Envelope:
        """Tell the app any event as it is."""
        return self.socket.publish("events_api", self._callback(event), ts=str(event.get("ts", "")))

    def tell(self, event: Json, *, ts: str = "") -> None:
        """Tell the app an event if it subscribed to its kind and may know of it."""
        channel = event.get("channel")
        if isinstance(channel, str):
            conversation = self.world.conversations[channel]
            if not conversation.has_bot:
                return
        if self._subscription(event) not in self.subscriptions:
            return
        subject = ts or str(event.get("deleted_ts") or (event.get("message") or {}).get("ts") or event.get("ts", ""))
        payload = self._callback(event)
        envelope = self.socket.publish("events_api", payload, ts=subject, own=not self._acting and _is_own(event))
        if self._acting:
            self._acts.append(envelope)

    def _subscription(self, event: Json) -> str:
        if event["type"] != "message":
            return str(event["type"])
        return f"message.{_SCOPE_OF_KIND[self.world.conversations[event['channel']].kind]}"

    def _callback(self, event: Json) -> Json:
        number = self.world.serial()
        return {
            "token": "verification",
            "team_id": TEAM_ID,
            "context_team_id": TEAM_ID,
            "context_enterprise_id": None,
            "api_app_id": APP_ID,
            "event": event,
            "type": "event_callback",
            "event_id": f"Ev{number:09d}",
            "event_time": int(float(event.get("event_ts", 0))),
            "authorizations": [
                {
                    "enterprise_id": None,
                    "team_id": TEAM_ID,
                    "user_id": BOT_USER_ID,
                    "is_bot": True,
                    "is_enterprise_install": False,
                }
            ],
            "is_ext_shared_channel": False,
            "event_context": f"4-{number}",
        }

    def _begin(self) -> bool:
        outer, self._acting = self._acting, True
        if not outer:
            self._acts = []
        return outer

    def _end(self, outer: bool, ts: str) -> None:
        self._acting = outer
        self.said_last = ts

    def _place(self, channel_id: str, user_id: str) -> Conversation:
        if user_id not in self.world.people:
            self.add_user(user_id, user_id.lower())
        if channel_id not in self.world.conversations:
            if not re.fullmatch(r"D[A-Z0-9]+", channel_id):
                raise ValueError(f"there is no channel {channel_id}; add it first")
            self.add_dm(user_id, channel_id)
        return self.world.conversations[channel_id]

    def _who(self, user_id: str) -> Json:
        person = self.world.people[user_id]
        return {"id": user_id, "username": person.name, "name": person.name, "team_id": TEAM_ID}

    def _channel_name(self, channel_id: str) -> str:
        return self.world.conversations[channel_id].name or "directmessage"

    def _response_url(self, channel_id: str, user_id: str, ts: str) -> str:
        return self.world.new_response_url(channel_id, user_id, ts)


def _is_own(event: Json) -> bool:
    inner = event.get("message") or event.get("previous_message") or event
    return bool(inner.get("bot_id") == BOT_ID)
