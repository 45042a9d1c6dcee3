"""Texts for tests, and rows that hold them."""

# ruff: noqa: RUF001 - characters that look alike are the point

import hashlib
import itertools
import json
import unicodedata

import pyarrow as pa
import pyarrow.parquet as pq

from recordmill import unicode_tables
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Artifact, Context
from tests.paths import SMS

# {extension: writes a table with the columns text and size, given its path and rows}
TABLES = {
    "csv": lambda path, rows: path.write_text(
        "\n".join(["text,size", *(f"{row['text']},{row['size']}" for row in rows)]) + "\n"
    ),
    "jsonl": lambda path, rows: path.write_text("".join(json.dumps(row) + "\n" for row in rows)),
    "parquet": lambda path, rows: pq.write_table(pa.Table.from_pylist(rows), path),
}
# Each stands for something that tokenizers get wrong.
SAMPLES = [
    "",
    " \t\r\n\v\f ",
    "Hello, World! It's 3.14 o'clock; e.g. at 10:30 a.m. -- don't.",
    "snake_case __init__ _ ___ a_1 CamelCase x2y",
    "1,000.50 1.000,50 1, 000 .5 5. 1.a a.1 1'000",
    "e-mail: foo.bar@example.com, https://example.com/a?b=c#d",
    "tab\tnew\nline\rreturn\x0bvertical\x0cform",
    "NUL\0inside \0 and \x01\x02 controls\x7f",
    "naïve café cafe\u0301 Zoë ÅNGSTRÖM ﬁne Straße",
    "Привет, мир! Ёлка — д'Артаньян",
    "ΟΔΥΣΣΕΥΣ Σ ΣΑΣ ΑΣ. άλφα",
    "İstanbul ISTANBUL ıI",
    "שלום עולם צה\"ל ג'ירפה",
    "\u202bשלום\u202c abc\u200fdef",
    "مرحبا بالعالم ١٢٣٫٤٥ ١٬٠٠٠ كِتَاب",
    "日本語のテキスト、カタカナ・ひらがな。ﾊﾝｶｸｶﾞ",
    "中文文本没有空格,ABC中文123。",
    "한국어 텍스트 한글123",
    "ภาษาไทยไม่มีช่องว่าง ๑๒๓",
    "हिन्दी में पाठ क्षत्रिय १२३",
    "ខ្មែរ မြန်မာ ລາວ",
    "emoji 😀👍🏽 👨\u200d👩\u200d👧 ❤️ 🇩🇪 a😀b",
    "no\u00a0break\u3000ideographic\u2003em\u200bzero\u00adsoft",
    "x² H₂O ½ Ⅷ ⓐ № ™ € 5€ $5",
    "l\u2019été d\u2018or a\u00b7b a\u2027b a\ufe55b",
    "\u0301leading mark a\u0301\u0302b \u0301",
    "꜀ʼn ˈstress ʰaspirated",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐐀𐐨 𠀀𠀁",
    "a" * 300 + " " + "_" * 300 + "!" * 300,
]


def is_assigned(character):
    """Return whether Unicode 14.0 assigns a character, under any Python."""
    return unicodedata.category(character) != "Cn" and not unicode_tables.has_later(character)


def strings(texts):
    return pa.array(texts, pa.string())


def sms():
    """(label, text) of all messages, as they stand in the file."""
    _, *lines = SMS.read_text(encoding="utf-8").split("\n")  # the first is a header
    return [tuple(line.split("\t", 1)) for line in lines if line]


def rows_of(texts, *, labels=None, copies=None, keys=None, extra=None):
    count = len(texts)
    columns = {
        batch.KEY: pa.array(keys or [f"f.tsv#{row}" for row in range(count)], pa.string()),
        batch.LABEL: pa.array(labels or [None] * count, pa.string()),
        batch.GROUP: pa.nulls(count, pa.string()),
        batch.SPLIT: pa.array(["train"] * count, pa.string()).dictionary_encode(),
        batch.COPY: pa.array(copies or [0] * count, pa.int32()),
        "text": strings(texts),
    }
    return pa.RecordBatch.from_pydict(columns | (extra or {}))


def store(folder, files):
    """Files as the artifacts of a context: {name: content}."""
    artifacts = {}
    for name, content in files.items():
        sha256 = hashlib.sha256(content).hexdigest()
        path = folder / sha256[:16] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        artifacts[name] = Artifact(path=str(path), sha256=sha256)
    return artifacts


def context_of(folder, files, **others):
    return Context(seed=7, artifacts=store(folder, files), **others)


def listed(coded):
    """The tokens of each row."""
    items = coded.distinct.take(pa.array(coded.codes)).to_pylist()
    edges = coded.offsets.tolist()
    return [items[a:b] for a, b in itertools.pairwise(edges)]
