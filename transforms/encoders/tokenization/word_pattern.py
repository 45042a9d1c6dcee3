r"""Words by Unicode's word boundaries (UAX #29), as one regular expression of RE2.

TensorFlow uses RE2, so the same pattern can prepare the input of a model:

    def standardize(texts):
        lowered = tf.strings.lower(texts, encoding="utf-8")
        return tf.strings.regex_replace(lowered, SPLIT_WORDS, SPLIT_WORDS_REWRITE)

    tf.keras.layers.TextVectorization(
        standardize=standardize, split="whitespace", vocabulary="out/vocabulary/tokens.txt"
    )

A word is a segment between two boundaries that has a letter or a digit. The rules, by their names
in https://unicode.org/reports/tr29/#Word_Boundary_Rules:

- Letters and digits belong together (WB5, 8, 9, 10).
- An apostrophe, period, colon or similar between two letters does not separate them (WB6, 7); nor
  does an apostrophe, period, comma or similar between two digits (WB11, 12), or a double quote
  between two Hebrew letters (WB7b, c).
- Katakana belongs together (WB13).
- An underscore or similar joins letters and digits (WB13a, b).
- Marks and format characters belong to the character before them (WB4).
- Every other letter is a word: Han, Hiragana, Thai, Lao, Khmer and Myanmar, whose words cannot be
  found without a dictionary.

Rare cases differ from the standard. An apostrophe after a Hebrew letter belongs to the word only if
a Hebrew letter follows (WB7, 7a). An underscore never joins Katakana (WB13a, b). Modifier symbols
such as U+02C2, punctuation that counts as letters (U+055B, U+05F3) and format characters that count
as digits (U+0600) are neither letters nor digits. Iteration marks such as U+3005 are words. A
half-width sound mark on its own is not a word.

In TensorFlow 2.21, tf.strings.lower with an encoding ends a text at a NUL. Replace NULs before:
tf.strings.regex_replace(texts, r"\x00", " ").

The module `words` finds the same words without RE2, about thirty times as fast.
"""

from __future__ import annotations

from typing import Final

_UNSPACED = (  # letters of scripts without spaces between words, except Katakana
    r"\p{Han}\p{Hiragana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}"
    r"\p{Tai_Viet}\p{Ahom}\p{Tangut}\p{Nushu}\p{Khitan_Small_Script}\x{3006}"
)
_MORE_KATAKANA = r"\x{3031}-\x{3035}\x{309B}\x{309C}\x{30A0}\x{30FC}\x{FF70}"
_HALF_WIDTH_SOUND = r"\x{FF9E}\x{FF9F}"

# Each of these matches one character.
HEBREW: Final = r"[^\P{L}\P{Hebrew}]"
LETTER: Final = (
    rf"[^\P{{L}}\p{{Hebrew}}\p{{Katakana}}{_UNSPACED}{_MORE_KATAKANA}{_HALF_WIDTH_SOUND}]"
    r"|[\x{16EE}-\x{16F0}\x{2160}-\x{2188}\x{24B6}-\x{24E9}\x{A6E6}-\x{A6EF}\x{10140}-\x{10174}"
    r"\x{10341}\x{1034A}\x{103D1}-\x{103D5}\x{12400}-\x{1246E}\x{1F130}-\x{1F149}"
    r"\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}]"
)
UNSPACED: Final = rf"[{_UNSPACED}\p{{Katakana}}{_MORE_KATAKANA}]"  # letters of these scripts
DIGIT: Final = r"[\p{Nd}\x{66B}]"
KATAKANA: Final = rf"[\p{{Katakana}}{_MORE_KATAKANA}]"
CONNECTOR: Final = r"[\p{Pc}\x{202F}]"
ALONE: Final = rf"[^\P{{L}}{_HALF_WIDTH_SOUND}]|\p{{Nl}}"  # letters of no other class
BETWEEN_LETTERS: Final = (
    r"['.:\x{B7}\x{387}\x{55F}\x{5F4}\x{2018}\x{2019}\x{2024}\x{2027}\x{FE13}\x{FE52}\x{FE55}"
    r"\x{FF07}\x{FF0E}\x{FF1A}]"
)
BETWEEN_DIGITS: Final = (
    r"['.,;\x{37E}\x{589}\x{60C}\x{60D}\x{66C}\x{7F8}\x{2018}\x{2019}\x{2024}\x{2044}\x{FE50}"
    r"\x{FE52}\x{FE54}\x{FF07}\x{FF0C}\x{FF0E}\x{FF1B}]"
)
# Marks, format characters (except U+200B, which separates words), emoji modifiers.
EXTENDED: Final = (
    rf"[\p{{M}}\x{{AD}}\x{{61C}}\x{{180E}}\x{{200C}}-\x{{200F}}\x{{202A}}-\x{{202E}}"
    rf"\x{{2060}}-\x{{2064}}\x{{2066}}-\x{{206F}}\x{{FEFF}}{_HALF_WIDTH_SOUND}"
    r"\x{FFF9}-\x{FFFB}\x{13430}-\x{13438}\x{1BCA0}-\x{1BCA3}\x{1D173}-\x{1D17A}"
    r"\x{1F3FB}-\x{1F3FF}\x{E0001}\x{E0020}-\x{E007F}]"
)


def _any(*alternatives: str) -> str:
    return f"(?:{'|'.join(alternatives)})"


def _some(character: str) -> str:
    """Return a pattern of one or more such characters, with marks after each."""
    return f"{_any(character)}{_any(character, EXTENDED)}*"


def _run(character: str, between: str) -> str:
    """Return a pattern of such characters, with single characters of `between` inside."""
    return f"{_some(character)}{_any(_any(between) + EXTENDED + '*' + _some(character))}*"


# TensorFlow limits RE2 to 8 MB, so every class is used as few times as possible.
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
# The first group is a word; other matches are between words. Runs of connectors are matched as a
# whole: searching for a word from each connector would take quadratic time.
SPLIT_WORDS: Final = f"({_WORD})|{_CONNECTORS}|(?s:.)"
SPLIT_WORDS_REWRITE: Final = r"\1 "
