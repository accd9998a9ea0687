"""Tests of what is hidden in messages, and what is not."""

from __future__ import annotations

import pytest

from judges.lm import JudgeError
from judges.redact import HIDDEN, check_tracking_uri, hide_in_urls, redact, redact_url


def test_values_of_secret_variables_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PROVIDER_API_KEY", "abcd-efgh-1234")
    monkeypatch.setenv("OTHER_TOKEN", "abcd-efgh-1234-longer")
    monkeypatch.setenv("SHORT_TOKEN", "error")
    monkeypatch.setenv("HOME_PAGE", "an-ordinary-value")
    text = "abcd-efgh-1234-longer, abcd-efgh-1234: error at an-ordinary-value"
    assert redact(text) == f"{HIDDEN}, {HIDDEN}: error at an-ordinary-value"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("key sk-proj-abcDEF_12345678 is wrong", f"key {HIDDEN} is wrong"),
        ("Authorization: Bearer abc.def-ghi12345", f"Authorization: Bearer {HIDDEN}"),
        ("GET https://host/v1?alt=x&key=AIzaSyA1234567", f"GET https://host/v1?alt=x&key={HIDDEN}"),
        (
            "the key of the span task-12345678 is disk-abcdefghij",
            "the key of the span task-12345678 is disk-abcdefghij",
        ),
        ("bearer of bad news", "bearer of bad news"),
        ("postgresql://me:p@ss/word@host/db refused", f"postgresql://me:{HIDDEN}@host/db refused"),
        ("https://abcd-1234@host/x", f"https://{HIDDEN}@host/x"),
        ("http://host:8000/v1 told a@b.example", "http://host:8000/v1 told a@b.example"),
        ("http://host:8000/a@b sqlite:////c@d/e", "http://host:8000/a@b sqlite:////c@d/e"),
        ("http://host/v1?x=1&api_key=abc&y=2", f"http://host/v1?x=1&api_key={HIDDEN}&y=2"),
        ("http://host/v1?access_token=abc", f"http://host/v1?access_token={HIDDEN}"),
    ],
)
def test_what_looks_like_a_key_is_hidden(text: str, hidden: str) -> None:
    assert redact(text) == hidden


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("https://user:password@host.example/v1?key=abc#x", "https://host.example/v1"),
        ("http://[::1]:80/v1", "http://[::1]:80/v1"),
        ("", ""),
        ("nonsense", ""),
    ],
)
def test_a_url_is_shown_without_what_may_be_secret(url: str, shown: str) -> None:
    assert redact_url(url) == shown


def test_passwords_in_urls_are_hidden_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "runs/sk-learning")
    assert (
        hide_in_urls("runs/sk-learning at mysql://me:secret-1@host") == f"runs/sk-learning at mysql://me:{HIDDEN}@host"
    )


@pytest.mark.parametrize("uri", ["http://me:secret-1@host:5000", "https://secret-1@host", "HTTP://me:secret-1@h/p"])
def test_a_server_with_a_password_is_refused(uri: str) -> None:
    with pytest.raises(JudgeError, match="MLFLOW_TRACKING_PASSWORD") as caught:
        check_tracking_uri(uri)
    assert "secret-1" not in str(caught.value)


@pytest.mark.parametrize(
    "uri", ["sqlite:////a@b/mlflow.db", "http://host:5000/p?x=a@b", "postgresql://me:secret-1@host/db", "databricks"]
)
def test_other_stores_are_taken(uri: str) -> None:
    check_tracking_uri(uri)
