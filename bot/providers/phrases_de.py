"""How German asks for reminders, lists and cancels them; its times are in `phrases_de_times.py`."""

from __future__ import annotations

from bot.providers.phrases_de_times import LEAD_RULES, RULES
from bot.providers.phrases_de_words import WORDS
from bot.providers.phrases_scan import ISO_DATE, Language

_compile = WORDS.compile

# What the listing and cancelling sentences call a reminder; compounds like "Wasser-Erinnerung" count too.
_NOUN = r"(?:[a-zäöüß]*-?erinnerung(?:en)?|wecker|timer|termin-?erinnerungen|jobs?)"
_POLITE = (
    r"(?:(?:bitte|hey|hi|hallo|ok|okay|so|und|dann|also|moin|servus|guten (?:morgen|tag|abend)|kannst du"
    r"|könntest du"
    r"|koenntest du|würdest du|wuerdest du|magst du|können sie|könnten sie|würden sie|du|sie|mal|kurz"
    r"|dutiful|bot"
    r"|ich möchte,? dass du|ich will,? dass du|vergiss nicht|denk dran|denk daran|denke daran)\b)"
)
_REMIND = r"(?:erinnere?|erinnern sie|errinnere?|erinner'|weise?|gemahne)"
_ASK = r"(?:kannst|könntest|koenntest|würdest|wuerdest|magst|willst|können|könnten|würden|möchtest) (?:du|sie)"

GERMAN = Language(
    code="de",
    rules=(*RULES, ISO_DATE),
    glue=_compile(r"\s*,?\s*(?:(?:um|am|und|ab|den|der|jeweils|immer|-|in|gegen) ?)?"),
    not_before=_compile(
        r"\b(?:für|fuer|bis|vor|seit|von|vom|als|der|die|das|dem|mein|meinen|unser|zwischen|zum|zur)\s*$"
    ),
    lead=_compile(
        r"(?:bitte|für|fuer|auf|noch|mal|nochmal|doch|wieder|immer|jeweils|schon|auch|daran|dran|zum|ab"
        r"|von)(?!\w)"
    ),
    frames=(
        _compile(rf"\b{_ASK} (?:bitte )?(?:mich|uns)\b(?P<mid>.*?)\berinnern\b"),
        _compile(
            r"\b(?:ich (?:möchte|will|würde(?: gerne?)?|muss|mag)|möchte ich"
            r"|würde ich(?: gerne?)?)\b(?P<mid>.*?)\berinnert werden\b"
        ),
        _compile(rf"\b{_REMIND} (?:mich|uns|misch)\b(?: bitte)?"),
        _compile(r"\bmich\b(?P<mid>[^.!?]*?)\b(?:zu )?erinner(?:n|st)\b"),
        _compile(r"\bweck(?:e|en sie)? mich\b|\b(?:kannst|könntest) du mich\b(?P<mid>.*?)\bwecken\b"),
        _compile(r"\b(?P<weak>sag(?:e|en sie)?|gib) mir(?P<mid>[^.!?]*?)\bbescheid\b"),
        _compile(r"\b(?P<weak>sag(?:e|en sie)?|melde|schreib(?:e)?) mir\b(?=\s*:|.*\bdass\b|$)"),
        _compile(
            r"\b(?:stelle?|setze?|erstelle?|mach(?:e)?|leg(?:e)?|richte|plane?|füge?|speichere?|neue"
            r"|ich brauche|ich möchte|ich will|brauche)"
            r"(?: mir| uns)?(?: bitte)?(?: mal)?(?: (?:einen?|eine|den|die|neuen?))*(?P<mid>[^.,:;!?]{0,40}?)"
            r"\b(?:erinnerung|wecker|timer|countdown)\b(?: (?:an|ein|hinzu)(?=\W*$))?"
        ),
        _compile(r"\blass(?:e)? mich nicht vergessen\b"),
        _compile(r"\bmir\b(?P<mid>[^.!?]*?)\b(?P<weak>bescheid) (?:sagen|geben)\b"),
        _compile(
            r"^\W*(?P<mid>[^.,:;!?]{0,40}?)\b(?P<noun>erinnerung|wecker|timer)\b(?=\s*:|\s+(?:für|fuer|in"
            r"|um|am|an|morgen|heute|übermorgen|jeden?|auf|\d))"
        ),
    ),
    not_frames=_compile(
        r"\b(?:ich|wir|er|sie|es|das|man|du) (?:kann|können|erinnere?|erinnert|erinnern|erinnerst) (?:mich"
        r"|uns|sich)?\b"
        r"|\berinnerst du dich\b|\berinnert mich\b|\b(?:wie|warum|was|wozu)\b.{0,40}\b(?:erinnerung|wecker"
        r"|timer)(?:en)?\b"
    ),
    question=_compile(
        r"[\s,]*(?:daran[\s,]*|an das[\s,]*)?(?:was|wer|wen|wem|warum|wieso|wie|wo|welche[rsn]?|worum"
        r"|woran|ob)\b"
    ),
    conditional=_compile(
        r"[\s,]*(?:DURATION (?:vor|vorher|davor|zuvor|früher)|wenn|falls|sobald|bevor|immer wenn|jedes ?mal wenn"
        r"|(?:\w+ ){0,3}(?:vor|nach) (?:dem|der"
        r"|meinem|meiner|unserem)\b)"
    ),
    # An article may follow if an infinitive ends it ("die Post prüfen"): a statement has its verb there instead.
    bare=_compile(
        r"(?=(?:das|die|der|den|meine?n?|unsere?n?) (?!.*\b(?:ist|sind|war|waren|hat|haben|wird|werden|kann|können)\b)"
        r".*\w(?:en|ern|eln|tun)\W*$)"
        r"|(?!(?:ich|wir|du|er|sie|es|ihr|man|das|die|der|dieser?|mein|meine|unser|ist|sind|war|hat|habe"
        r"|haben|hast|kann|kannst"
        r"|muss|müssen|will|soll|wird|werden|gibt|geht|gehe|gehen|fühle|was|wer|warum|wie|wo|wann|und|oder"
        r"|aber|bin|steht|stehe|kommt"
        r"|mache|macht|passiert|scheint|fährt|fahre)\b)"
    ),
    connectors=_compile(
        r"(?:(?P<loose>daran|dran)(?:\s*,)?|,?\s*dass|das\s+ich(?=\b)|an (?:die|den|das|dem|der|einen|eine"
        r"|ein)|ans|an|zum|zur|zu|mit dem text|von wegen|wegen|über|und)(?!\w)"
    ),
    clause=_compile(r",?\s*dass\b.*\b(?:ist|sind|beginnt|anfängt|war|findet)\b"),
    politeness=_compile(rf"(?:@\w+|{_POLITE})"),
    thanks=_compile(
        r"[\s,.!]+(?:bitte|und|also|dann|danke|danke dir|danke schön|vielen dank|ja|ok)\W*$|\s+(?:an|ein"
        r"|hinzu)\W*$(?<=stell an)"
    ),
    unfinished=_compile(r"\b(?:ist|sind|war|um|am|in|im|der|die|das|den|dem|bis|vor|für|von|mit|und|oder)$"),
    lead_rules=LEAD_RULES,
    lists=_compile(
        rf"\b(?:zeige?|liste?|nenne?|gib|sag|lies)\b(?: mir| uns)?(?: bitte)?(?: mal)?(?: (?:alle|meine"
        rf"|die|unsere|aktuellen?|offenen?|anstehenden?|gesetzten?))* {_NOUN}\b"
        rf"|\b(?:welche|was für|wie viele)(?: (?:aktiven?|offenen?|anstehenden?|geplanten?))? {_NOUN}\b"
        rf"|\bwas (?:sind|ist)(?: denn)?(?: (?:alle|meine?|die|unsere|aktuellen?|offenen?|anstehenden?"
        rf"|nächsten?))+ {_NOUN}\b"
        rf"|\b(?:habe|hab|haben) (?:ich|wir)(?: (?:noch|gerade|aktuell|schon|momentan|irgendwelche|eine"
        rf"|offene|aktive))* {_NOUN}\b"
        rf"|\b(?:gibt es|sind)(?: (?:noch|gerade|aktuell|irgendwelche|meine))* {_NOUN}\b"
        rf"|^\W*(?:alle |meine |aktuelle |offene )*{_NOUN}(?:liste)?(?: (?:anzeigen|auflisten|zeigen|bitte"
        rf"|ansehen))*\W*$"
        rf"|\b{_NOUN} (?:anzeigen|auflisten|zeigen)\b"
        r"|\b(?:woran|an was) (?:wirst|erinnerst|sollst|willst|musst) du mich\b"
        r"|\bwas (?:hast du dir für mich|habe ich) (?:gemerkt|geplant)\b"
        rf"|^\W*(?:welche|zeig).*\b{_NOUN}\b.*\b(?:habe|gibt|aktiv|an)\b"
    ),
    cancels=(
        _compile(r"\berinnere? (?:mich|uns) (?:bitte )?(?:nicht mehr|nie wieder|nicht länger|nicht)\b(?P<what>.*)"),
        _compile(rf"\bkeine (?P<what>.*\b{_NOUN}\b.*)mehr\b"),
        _compile(
            rf"^(?:\W|{_POLITE})*(?:lösche?|loesche?|lösch|entferne?|streiche?|storniere?|canceln?|cancel"
            rf"|verwirf|vergiss(?! (?:bitte )?nicht)|stoppe?|beende?|brich|lass)\b"
            r"(?P<what>.*?)(?:\s+(?:ab|weg|raus))?\W*$"
        ),
        _compile(
            rf"\b(?P<what>(?:die |meine? |alle |den |der )?[^.!?]*?(?:\b{_NOUN}"
            rf"|\bnummer \d+)[^.!?]*?) (?:löschen|loeschen|entfernen|streichen|stornieren|abbrechen"
            rf"|absagen|stoppen|weg)\b"
        ),
        _compile(
            rf"^(?:\W|{_POLITE})*(?:sage?|schalte?|stelle?|mach)\b(?P<what>.*\b{_NOUN}\b.*) (?:ab|aus"
            rf"|weg)\W*$"
        ),
    ),
    pauses=(
        _compile(rf"^(?:\W|{_POLITE})*(?:pausiere?|unterbrich|deaktiviere?|halte)\b(?P<what>.*?)(?:\s+an)?\W*$"),
        _compile(rf"\b(?P<what>[^.!?]*\b{_NOUN}\b[^.!?]*) (?:pausieren|deaktivieren|unterbrechen)\b"),
    ),
    resumes=(
        _compile(rf"^(?:\W|{_POLITE})*(?:setze?|führe)\b(?P<what>.*) fort\W*$"),
        _compile(rf"^(?:\W|{_POLITE})*(?:aktiviere?|reaktiviere?|nimm)\b(?P<what>.*?)(?:\s+wieder(?: auf)?)?\W*$"),
        _compile(
            rf"\b(?P<what>[^.!?]*\b{_NOUN}\b[^.!?]*) (?:fortsetzen|wieder aktivieren|weiterführen"
            rf"|reaktivieren)\b"
        ),
    ),
    changes=_compile(rf"^(?:\W|{_POLITE})*(?:ändere?|verschiebe?|verlege?|bearbeite|aktualisiere)\b.*\b(?:{_NOUN})\b"),
    nouns=_compile(rf"\b(?:{_NOUN}|erinnere?|nummer|nr\.?)\b|#\d"),
    fillers=_compile(
        r"\b(?:erinnerung(?:en)?|wecker|timer|jobs?|das|die|der|den|dem|des|ein|eine|einen|mein|meine"
        r"|meinen|meiner|mir|mich|uns|bitte"
        r"|an|ans|am|zum|zur|zu|mit|für|um|daran|dass|ich|von|vom|wegen|mehr|nummer|nr|nicht|auf|über|und"
        r"|sie|es|mal|wieder|jetzt)\b"
        r"|-?erinnerung(?:en)?\b"
    ),
    everything=_compile(
        rf"\b(?:alle(?: meine| die)?(?: {_NOUN})?|alles|sämtliche(?: {_NOUN})?)\b|^\W*(?:meine "
        rf"|die )?erinnerungen\W*$"
    ),
    ordinals={
        "erste": 1,
        "ersten": 1,
        "zweite": 2,
        "zweiten": 2,
        "dritte": 3,
        "dritten": 3,
        "vierte": 4,
        "vierten": 4,
        "letzte": -1,
        "letzten": -1,
    },
    default_text="Erinnerung",
    own_texts=(
        (_compile(r"\bweck(?:e|en)?\b"), "Aufwachen"),
        (_compile(r"\bwecker\b"), "Wecker"),
        (_compile(r"\b(?:timer|countdown)\b"), "Timer"),
    ),
    joiner=" ",
)
