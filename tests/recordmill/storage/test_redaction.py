import pytest

from recordmill.storage.redaction import holds_keys, redact_uri, redact_uris


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("abfs://box@a.dfs.core.windows.net/x?sv=1&sig=hunter2", None),
        ("s3://ID:hunter2@bucket/x", "s3://***@bucket/x"),
        ("s3://ID:hun/ter2@bucket/x", "s3://***@bucket/x"),
        ("abfs://:hunter2@account/x", "abfs://***@account/x"),
        ("https://host/x?sig=hunter2&page=1", "https://host/x?sig=***&page=1"),
        ("https://host/x?X-Amz-Signature=hunter2", "https://host/x?X-Amz-Signature=***"),
        (
            "cannot read s3://b/x?region=eu&secret_key=hunter2: denied",
            "cannot read s3://b/x?region=eu&secret_key=*** denied",
        ),
    ],
)
def test_secrets_are_hidden(text, shown):
    redacted = redact_uri(text)
    assert "ter2" not in redacted
    assert redact_uri(redacted) == redacted
    assert shown is None or redacted == shown
    assert redact_uris({"a": [text, 1]}) == {"a": [redacted, 1]}


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/x?endpoint_override=localhost:9000&scheme=http&region=us-east-1",
        "gs://bucket/10:30@home.jpg",
        "https://host/articles?id=7",
        "/local/a?sig=b",
        "a.csv: what?key=b",
    ],
)
def test_everything_else_is_shown(text):
    assert redact_uri(text) == text
    assert not holds_keys(text)
