r"""What a word is: Unicode's word boundaries (UAX #29) as one regular expression of RE2.

RE2 is what TensorFlow has, so that the same pattern makes the input of a model:

    def standardize(texts):
        lowered = tf.strings.lower(texts, encoding="utf-8")
        return tf.strings.regex_replace(lowered, SPLIT_WORDS, SPLIT_WORDS_REWRITE)

    tf.keras.layers.TextVectorization(
        standardize=standardize, split="whitespace", vocabulary="out/vocabulary/tokens.txt"
    )

A word is what stands between two boundaries and has a letter or a digit. Rules, by their names in
https://unicode.org/reports/tr29/#Word_Boundary_Rules: letters and digits stay together (WB5, 8, 9,
10); an apostrophe, period, colon and the like between two letters (WB6, 7), or an apostrophe,
period, comma and the like between two digits (WB11, 12), does not part them, nor a double quote
two Hebrew letters (WB7b, c); Katakana stays together (WB13); an underscore and the like joins
letters and digits (WB13a, b); marks and format characters belong to what they follow (WB4). Every
other letter is a word by itself: Han, Hiragana, Thai, Lao, Khmer, Myanmar, whose words only a
dictionary could tell.

It differs from the standard where that would take more than it is worth. An apostrophe after a
Hebrew letter belongs to the word only where a Hebrew letter follows (WB7, 7a), an underscore never
to Katakana (WB13a, b). Modifier symbols such as U+02C2, the few punctuation marks that count as
letters (U+055B, U+05F3), and format characters that count as digits (U+0600) are none of these;
marks of repetition such as U+3005 stand alone; a half-width sound mark by itself is no word.

TensorFlow 2.21 is at fault with a NUL: tf.strings.lower with an encoding ends the text there. Where
texts may have some, make them spaces before: tf.strings.regex_replace(texts, r"\x00", " ").

`words` finds the same words without RE2, some thirty times as fast, from the same characters.
"""

from __future__ import annotations

from typing import Final

_APART = (  # letters whose script has no spaces between words, but Katakana
    r"\p{Han}\p{Hiragana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}"
    r"\p{Tai_Viet}\p{Ahom}\p{Tangut}\p{Nushu}\p{Khitan_Small_Script}\x{3006}"
)
_MORE_KATAKANA = r"\x{3031}-\x{3035}\x{309B}\x{309C}\x{30A0}\x{30FC}\x{FF70}"
_HALF_WIDTH_SOUND = r"\x{FF9E}\x{FF9F}"

# Each of these is one character, by alternatives.
HEBREW: Final = r"[^\P{L}\P{Hebrew}]"
LETTER: Final = (
    rf"[^\P{{L}}\p{{Hebrew}}\p{{Katakana}}{_APART}{_MORE_KATAKANA}{_HALF_WIDTH_SOUND}]"
    r"|[\x{16EE}-\x{16F0}\x{2160}-\x{2188}\x{24B6}-\x{24E9}\x{A6E6}-\x{A6EF}\x{10140}-\x{10174}"
    r"\x{10341}\x{1034A}\x{103D1}-\x{103D5}\x{12400}-\x{1246E}\x{1F130}-\x{1F149}"
    r"\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}]"
)
DIGIT: Final = r"[\p{Nd}\x{66B}]"
KATAKANA: Final = rf"[\p{{Katakana}}{_MORE_KATAKANA}]"
CONNECTOR: Final = r"[\p{Pc}\x{202F}]"
ALONE: Final = rf"[^\P{{L}}{_HALF_WIDTH_SOUND}]|\p{{Nl}}"  # all letters that the others leave
BETWEEN_LETTERS: Final = (
    r"['.:\x{B7}\x{387}\x{55F}\x{5F4}\x{2018}\x{2019}\x{2024}\x{2027}\x{FE13}\x{FE52}\x{FE55}"
    r"\x{FF07}\x{FF0E}\x{FF1A}]"
)
BETWEEN_DIGITS: Final = (
    r"['.,;\x{37E}\x{589}\x{60C}\x{60D}\x{66C}\x{7F8}\x{2018}\x{2019}\x{2024}\x{2044}\x{FE50}"
    r"\x{FE52}\x{FE54}\x{FF07}\x{FF0C}\x{FF0E}\x{FF1B}]"
)
# Marks, format characters (but U+200B, which parts words), emoji modifiers.
EXTENDED: Final = (
    rf"[\p{{M}}\x{{AD}}\x{{61C}}\x{{180E}}\x{{200C}}-\x{{200F}}\x{{202A}}-\x{{202E}}"
    rf"\x{{2060}}-\x{{2064}}\x{{2066}}-\x{{206F}}\x{{FEFF}}{_HALF_WIDTH_SOUND}"
    r"\x{FFF9}-\x{FFFB}\x{13430}-\x{13438}\x{1BCA0}-\x{1BCA3}\x{1D173}-\x{1D17A}"
    r"\x{1F3FB}-\x{1F3FF}\x{E0001}\x{E0020}-\x{E007F}]"
)


def _any(*alternatives: str) -> str:
    return f"(?:{'|'.join(alternatives)})"


def _some(character: str) -> str:
    """One of them or more, with marks after each."""
    return f"{_any(character)}{_any(character, EXTENDED)}*"


def _run(character: str, between: str) -> str:
    """Some of them, and more after one that may stand between, again and again."""
    return f"{_some(character)}{_any(_any(between) + EXTENDED + '*' + _some(character))}*"


# TensorFlow gives RE2 8 MB, so that every class should stand here as few times as can be.
_RUN = _any(
    _run(LETTER, BETWEEN_LETTERS),
    _run(DIGIT, BETWEEN_DIGITS),
    _run(HEBREW, _any(BETWEEN_LETTERS, '"')),
)
_CONNECTORS = _some(CONNECTOR)
_WORD = _any(
    f"{_any(_any(_CONNECTORS) + '?' + _RUN)}+{_any(_CONNECTORS)}?",
    _some(KATAKANA),
    f"{_any(ALONE)}{EXTENDED}*",
)
# The first group is a word; all else that matches is what stands between words. Connectors are
# taken as a whole, as looking from each for a word that does not come takes squared time.
SPLIT_WORDS: Final = f"({_WORD})|{_CONNECTORS}|(?s:.)"
SPLIT_WORDS_REWRITE: Final = r"\1 "
