"""How English asks for reminders, lists and cancels them; its times are in `phrases_en_times.py`."""

from __future__ import annotations

from bot.providers.phrases_en_times import LEAD_RULES, RULES
from bot.providers.phrases_en_words import WORDS
from bot.providers.phrases_scan import ISO_DATE, Language

_compile = WORDS.compile

# What the listing and cancelling sentences call a reminder.
_NOUN = r"(?:reminders?|alarms?|timers?|jobs?|notifications?|scheduled (?:jobs?|messages?|things?))"
_POLITE = (
    r"(?:(?:please|pls|plz|hey|hi|hello|ok|okay|so|and|then|now|also|well|yo|dear|good (?:morning|evening"
    r"|afternoon)"
    r"|can you|could you|would you|will you|can u|would you mind|i want you to|i need you to|i'd like you to"
    r"|i would like you to|kindly|just|dutiful|bot|there|let's|quick|don't forget to|make sure to"
    r"|be sure to|you)\b)"
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
            rf"\b{_WANT}(?: to (?:set|have|get))? (?:a|an) (?P<mid>[^.,:;!?]{{0,40}}?)\b(?:reminder|alarm"
            rf"|timer)\b"
        ),
        _compile(r"\b(?:wake me(?: up)?|get me up)\b"),
        _compile(
            r"\b(?:set|create|add|make|schedule|put|start|give me|set up|new|leave)(?: me| us| up| in)?"
            r" (?:an? |another |the |my |one )?(?:new )?(?P<mid>[^.,:;!?]{0,40}?)\b(?:reminder|alarm|timer"
            r"|countdown)\b"
        ),
        _compile(
            r"\b(?:remind me|remind us|remember to remind me|reming me|remindme|give me a reminder|ping me"
            r"|nudge me|alert me|notify me)\b"
        ),
        _compile(r"\blet me (?P<weak>know)(?= (?:again )?(?:in|at|on|every|tomorrow|tonight)\b)"),
        _compile(
            r"\b(?P<weak>tell|message|text) me(?=(?: again)? (?:in|at|on|to|every|each"
            r"|tomorrow|tonight|this)\b|\s*:|$)"
        ),
        _compile(r"\b(?:don't|do not|never) let me forget\b"),
        _compile(
            r"^\s*(?P<mid>[^.,:;!?]{0,40}?)\b(?P<noun>reminder|alarm|timer)\b(?=\s*:|\s+(?:for|in|at|on|to"
            r"|every|tomorrow|tonight|\d))"
        ),
        _compile(r"^\W*(?P<mid>[^.,:;!?]{1,40}?)[ -](?P<weak>timer|alarm)\W*$"),
    ),
    not_frames=_compile(
        r"(?<!can )(?<!could )(?<!would )(?<!will )(?<!can't )\byou remind (?:me|us)\b|\b(?:they|it|that"
        r"|this|which|who|these|those|always|did you|do you|didn't|doesn't|does|photos|songs) remind (?:me"
        r"|us)\b"
        r"|\b(?:how|why|what|when|where|who|did|do|does|is|are)\b.{0,60}\b(?:reminder|alarm|timer)s?\b"
    ),
    question=_compile(r"(?:\s|,)*(?:again )?(?:what|who|whom|whose|why|how|where|which|when|whether)\b"),
    conditional=_compile(
        r"(?:\s|,)*(?:DURATION (?:before|prior|ahead|in advance|early|earlier)|if|once|whenever|as soon as|unless"
        r"|while|before|(?:\w+ ){0,3}(?:before|after) (?!\d"
        r"|noon|midnight|HOURWORD\b|tomorrow)(?=\w))"
    ),
    bare=_compile(
        r"(?!(?:i|i'm|i've|i'd|we|you|he|she|it|it's|they|there|this|that|these|those|my|your|our|his|her"
        r"|their|the|a|an"
        r"|is|are|was|were|am|be|has|have|had|can|could|will|would|should|does|did|do you|do i|what|who"
        r"|why|how"
        r"|when|where|which|and|or|but|someone|something|people|everyone|in|of|for|at|on|with|life)\b)"
    ),
    connectors=_compile(
        r"(?:to|that|about|of|for|with|saying|says|called|titled|labell?ed|named|with the text|and|:|-"
        r"|i (?:should|have to|need to|must))(?!\w)"
    ),
    clause=_compile(r"(?:that|i )"),
    politeness=_compile(rf"(?:@\w+|{_POLITE})"),
    thanks=_compile(
        r"[\s,.!]+(?:please|so|and|then|pls|thanks|thank you|thx|ok|okay|will you|would you|could you"
        r"|can you)\W*$"
    ),
    unfinished=_compile(
        r"\b(?:is|are|was|were|at|on|in|to|the|a|an|by|from|for|with|until|till|before|after|of|my|and|or)$"
    ),
    lead_rules=LEAD_RULES,
    lists=_compile(
        rf"\b(?:list|show|see|view|display|print|give|get|tell|check|read)\b(?: me"
        rf"| us)?(?: all)?(?: of)?(?: the| my| our)?"
        rf"(?: (?:all|current|active|open|pending|upcoming|existing|scheduled"
        rf"|set))*(?: my)? {_NOUN}\b(?! (?:to|at|in|for me)\b)"
        rf"|\b(?:what|which)(?:'s| is| are|'re)?(?: all)?(?: the| my| our)?(?: (?:current|active|open"
        rf"|pending|upcoming|scheduled|other))*"
        rf" {_NOUN}(?: (?:do|have|did) (?:i|we|you)\b.*| (?:are|is) (?:set|active|there|pending|scheduled"
        rf"|coming|on|left|planned|open)\b.*)"
        rf"|\b(?:what|which)(?:'s| is| are|'re)(?: all)?(?: the| my| our)(?: (?:all|current|active|open"
        rf"|pending|upcoming|scheduled|next))* {_NOUN}\b"
        rf"|\b(?:do|have|did) (?:i|we|you)(?: still| already)? (?:have|got|set|know)(?: any| some"
        rf"| an?)?(?: (?:active|open|pending|upcoming|scheduled|other|more))* {_NOUN}\b"
        rf"|\b(?:are|is) there(?: any| an?)?(?: (?:active|open|pending|upcoming|scheduled|other"
        rf"|more))* {_NOUN}\b"
        rf"|\bhow many {_NOUN}\b|^\W*(?:all )?(?:the |my |our )?(?:(?:current|active|open|pending"
        rf"|upcoming) )?{_NOUN}(?: list)?(?: please)?\W*$"
        r"|\bwhat (?:did i (?:ask|tell|want) you|have i asked you|are you going|will you"
        r"|are you supposed) to remind me\b"
        r"|\bwhat (?:will|are) you (?:going to )?(?:remind|reminding) me\b|\bwhat(?:'s| is"
        r"| do i have) (?:scheduled|(?:on|in) my (?:reminders?|schedule|list))\b"
        r"|^\W*(?:any|got any) (?:active |open |more )*(?:reminders|alarms|timers)\W*$|\bwhat (?:have|do) i (?:have "
        r"|got )?scheduled\b|\blist (?:reminders?|jobs?)\b"
    ),
    cancels=(
        _compile(r"\b(?:don't|do not|stop|quit|never) remind(?:ing)? (?:me|us)\b(?P<what>.*)"),
        _compile(r"\bno more\b(?P<what>.*\breminders?\b.*)"),
        _compile(
            rf"^(?:\W|{_POLITE})*(?:cancel|delete|remove|unset|discard|scrap|dismiss|kill|clear|erase"
            rf"|get rid of|turn off|switch off|(?:drop|forget|stop|end)(?! (?:it|that|this)\W*$))\b(?P<what>.*)"
        ),
        _compile(rf"\b(?:cancel|delete|remove|stop|forget) (?P<what>.*\b(?:{_NOUN}|one)\b.*)"),
    ),
    pauses=(_compile(rf"^(?:\W|{_POLITE})*(?:pause|suspend|mute|silence|hold|disable|deactivate)\b(?P<what>.*)"),),
    resumes=(
        _compile(
            rf"^(?:\W|{_POLITE})*(?:resume|unpause|un-pause|continue|restart|reactivate|enable|re-enable"
            rf"|unmute|turn on|switch on)\b(?P<what>.*)"
        ),
    ),
    changes=_compile(
        rf"^(?:\W|{_POLITE})*(?:change|move|postpone|reschedule|shift|edit|update|rename|snooze|push back"
        rf"|delay)\b.*\b(?:{_NOUN}|one)\b"
    ),
    nouns=_compile(rf"\b(?:{_NOUN}|one|number|no\.|remind(?:ing)?)\b|#\d"),
    fillers=_compile(
        rf"\b(?:{_NOUN}|the|an?|my|our|me|us|that|this|those|these|one|about|to|for|of|on|in|with|please"
        rf"|thanks|thank you|anymore|any more"
        r"|any longer|number|no|which|says|saying|called|named|titled|it|again|now|and|from|up|off|is|at"
        r"|every|each|scheduled|you)\b"
    ),
    everything=_compile(
        rf"\b(?:all|everything|every (?:single )?(?:{_NOUN}|one)|each of them|both)\b|^\W*(?:my "
        rf"|the )?reminders\W*$"
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
    own_texts=(
        (_compile(r"\b(?:wake me|get me up)\b"), "Wake up"),
        (_compile(r"\balarm\b"), "Alarm"),
        (_compile(r"\b(?:timer|countdown)\b"), "Timer"),
    ),
    joiner=" ",
)
