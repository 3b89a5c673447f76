"""How English asks for reminders, lists and cancels them; its times are in `phrases_en_times.py`."""

from __future__ import annotations

from bot.providers.phrases_en_times import RULES, WORDS, read_duration
from bot.providers.phrases_scan import ISO_DATE, Language

_compile = WORDS.compile

# What the listing and cancelling sentences call a reminder.
_NOUN = r"(?:reminders?|alarms?|timers?|jobs?|notifications?|scheduled (?:jobs?|messages?|things?))"
_POLITE = (
    r"(?:(?:please|pls|plz|hey|hi|hello|ok|okay|so|and|then|now|also|well|yo|dear|good (?:morning|evening|afternoon)"
    r"|can you|could you|would you|will you|can u|would you mind|i want you to|i need you to|i'd like you to"
    r"|i would like you to|kindly|just|dutiful|bot|there|let's|quick|don't forget to|make sure to|be sure to|you)\b)"
)
_WANT = r"(?:i'd like|i would like|i want|i need|i wish)"

ENGLISH = Language(
    code="en",
    rules=(*RULES, ISO_DATE),
    glue=_compile(r"\s*,?\s*(?:(?:at|on|and|of|in|the|-|starting) ?)?"),
    not_before=_compile(
        r"\b(?:for|until|till|since|before|from|than|of|between|due|my|our|your|his|her|their|a|the)\s*$"
    ),
    lead=_compile(r"(?:for|again|please|it's|is|just|something|and|reminder|alarm|to go off|starting|beginning)\b"),
    frames=(
        _compile(rf"\b{_WANT} to be reminded\b"),
        _compile(
            rf"\b{_WANT}(?: to (?:set|have|get))? (?:a|an) (?P<mid>[^.,:;!?]{{0,40}}?)\b(?:reminder|alarm|timer)\b"
        ),
        _compile(r"\b(?:wake me(?: up)?|get me up)\b"),
        _compile(
            r"\b(?:set|create|add|make|schedule|put|start|give me|set up|new|leave)(?: me| us| up| in)?"
            r" (?:an? |another |the |my |one )?(?:new )?(?P<mid>[^.,:;!?]{0,40}?)\b(?:reminder|alarm|timer|countdown)\b"
        ),
        _compile(
            r"\b(?:remind me|remind us|remember to remind me|reming me|remindme|give me a reminder|ping me|nudge me|alert me|notify me)\b"
        ),
        _compile(
            r"\b(?P<weak>tell|message|text|call out to) me(?=(?: again)? (?:in|at|on|to|every|each|tomorrow|tonight|this)\b|\s*:|$)"
        ),
        _compile(r"\b(?:don't|do not|never) let me forget\b"),
        _compile(
            r"^\s*(?P<mid>[^.,:;!?]{0,40}?)\b(?:reminder|alarm|timer)\b(?=\s*:|\s+(?:for|in|at|on|to|every|tomorrow|tonight|\d))"
        ),
    ),
    not_frames=_compile(
        r"(?<!can )(?<!could )(?<!would )(?<!will )(?<!can't )\byou remind (?:me|us)\b|\b(?:they|it|that|this|which|who|these|those|always|did you|do you|didn't|doesn't|does|photos|songs) remind (?:me|us)\b"
        r"|\b(?:how|why|what|when|where|who|did|do|does|is|are)\b.{0,60}\b(?:reminder|alarm|timer)s?\b"
    ),
    question=_compile(r"(?:\s|,)*(?:again )?(?:what|who|whom|whose|why|how|where|which|when|whether)\b"),
    conditional=_compile(
        r"(?:\s|,)*(?:if|once|whenever|as soon as|unless|while|before|(?:\w+ ){0,3}(?:before|after) (?!\d|noon|midnight|HOURWORD\b|tomorrow)(?=\w))"
    ),
    bare=_compile(
        r"(?!(?:i|i'm|i've|i'd|we|you|he|she|it|it's|they|there|this|that|these|those|my|your|our|his|her|their|the|a|an"
        r"|is|are|was|were|am|be|has|have|had|can|could|will|would|should|does|did|do you|do i|what|who|why|how"
        r"|when|where|which|and|or|but|someone|something|people|everyone|in|of|for|at|on|with|life)\b)"
    ),
    connectors=_compile(
        r"(?:to|that|about|of|for|with|saying|says|called|titled|labell?ed|named|with the text|and|:|-|i (?:should|have to|need to|must))(?!\w)"
    ),
    clause=_compile(r"(?:that|i )"),
    politeness=_compile(rf"(?:@\w+|{_POLITE})"),
    thanks=_compile(r"[\s,.!]+(?:please|pls|thanks|thank you|thx|ok|okay|will you|would you|could you|can you)\W*$"),
    unfinished=_compile(
        r"\b(?:is|are|was|were|at|on|in|to|the|a|an|by|from|for|with|until|till|before|after|of|my|and|or)$"
    ),
    duration=_compile(r"DURATION(?! (?:before|after|early|earlier|prior|ago)\b)"),
    read_duration=read_duration,
    lists=_compile(
        rf"\b(?:list|show|see|view|display|print|give|get|tell|check|read)\b(?: me| us)?(?: all)?(?: of)?(?: the| my| our)?"
        rf"(?: (?:all|current|active|open|pending|upcoming|existing|scheduled|set))*(?: my)? {_NOUN}\b(?! (?:to|at|in|for me)\b)"
        rf"|\b(?:what|which)(?:'s| is| are|'re)?(?: all)?(?: the| my| our)?(?: (?:current|active|open|pending|upcoming|scheduled|other))*"
        rf" {_NOUN}(?: (?:do|have|did) (?:i|we|you)\b.*| (?:are|is) (?:set|active|there|pending|scheduled|coming|on|left|planned|open)\b.*)"
        rf"|\b(?:what|which)(?:'s| is| are|'re)(?: all)?(?: the| my| our)(?: (?:all|current|active|open|pending|upcoming|scheduled|next))* {_NOUN}\b"
        rf"|\b(?:do|have|did) (?:i|we|you)(?: still| already)? (?:have|got|set|know)(?: any| some| an?)?(?: (?:active|open|pending|upcoming|scheduled|other|more))* {_NOUN}\b"
        rf"|\b(?:are|is) there(?: any| an?)?(?: (?:active|open|pending|upcoming|scheduled|other|more))* {_NOUN}\b"
        rf"|\bhow many {_NOUN}\b|^\W*(?:all )?(?:the |my |our )?(?:(?:current|active|open|pending|upcoming) )?{_NOUN}(?: list)?(?: please)?\W*$"
        r"|\bwhat (?:did i (?:ask|tell|want) you|have i asked you|are you going|will you|are you supposed) to remind me\b"
        r"|\bwhat (?:will|are) you (?:going to )?(?:remind|reminding) me\b|\bwhat(?:'s| is| do i have) (?:scheduled|(?:on|in) my (?:reminders?|schedule|list))\b"
        r"|\bwhat (?:have|do) i (?:have |got )?scheduled\b|\blist (?:reminders?|jobs?)\b"
    ),
    cancels=(
        _compile(r"\b(?:don't|do not|stop|quit|never) remind(?:ing)? (?:me|us)\b(?P<what>.*)"),
        _compile(r"\bno more\b(?P<what>.*\breminders?\b.*)"),
        _compile(
            rf"^(?:\W|{_POLITE})*(?:cancel|delete|remove|unset|discard|scrap|dismiss|kill|clear|erase|drop|forget|stop|get rid of|turn off|switch off|end)\b"
            r"(?P<what>.*)"
        ),
        _compile(rf"\b(?:cancel|delete|remove|stop|forget) (?P<what>.*\b(?:{_NOUN}|one)\b.*)"),
    ),
    pauses=(_compile(rf"^(?:\W|{_POLITE})*(?:pause|suspend|mute|silence|hold|disable|deactivate)\b(?P<what>.*)"),),
    resumes=(
        _compile(
            rf"^(?:\W|{_POLITE})*(?:resume|unpause|un-pause|continue|restart|reactivate|enable|re-enable|unmute|turn on|switch on)\b(?P<what>.*)"
        ),
    ),
    changes=_compile(
        rf"^(?:\W|{_POLITE})*(?:change|move|postpone|reschedule|shift|edit|update|rename|snooze|push back|delay)\b.*\b(?:{_NOUN}|one)\b"
    ),
    nouns=_compile(rf"\b(?:{_NOUN}|one|it|number|no\.|remind(?:ing)?)\b|#\d"),
    fillers=_compile(
        rf"\b(?:{_NOUN}|the|an?|my|our|me|us|that|this|those|these|one|about|to|for|of|on|in|with|please|thanks|thank you|anymore|any more"
        r"|any longer|number|no|which|says|saying|called|named|titled|it|again|now|and|from|up|off|is|at|every|each|scheduled|you)\b"
    ),
    everything=_compile(
        rf"\b(?:all|everything|every (?:single )?(?:{_NOUN}|one)|each of them|both)\b|^\W*(?:my |the )?reminders\W*$"
    ),
    ordinals={
        "first": 1,
        "1st": 1,
        "second": 2,
        "2nd": 2,
        "third": 3,
        "3rd": 3,
        "fourth": 4,
        "4th": 4,
        "fifth": 5,
        "5th": 5,
        "last": -1,
        "latest": -1,
        "newest": -1,
    },
    default_text="Reminder",
    wake=_compile(r"(?:wake me|get me up)"),
    wake_text="Wake up",
    timer=_compile(r".*\b(?:timer|countdown)$"),
    timer_text="Timer",
    joiner=" ",
)
