"""Tests of what is hidden in messages, and what is not."""

from __future__ import annotations

import time

import pytest

from judges.lm import JudgeError
from judges.redact import (
    HIDDEN,
    check_endpoint,
    check_tracking_uri,
    hide_in_uri,
    hide_in_urls,
    redact,
    redact_url,
)


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
        ("'http://host:8000' told a@b.example", "'http://host:8000' told a@b.example"),
        ("at http://host: no, says a@b.example", "at http://host: no, says a@b.example"),
        ("http://host:8000/a@b sqlite:////c@d/e", "http://host:8000/a@b sqlite:////c@d/e"),
        ("http://host/v1?x=1&api_key=abc&y=2", f"http://host/v1?x=1&api_key={HIDDEN}&y=2"),
        ("http://host/v1?access_token=abc", f"http://host/v1?access_token={HIDDEN}"),
        ("model hf_abcdefgh1234 of hf-inference", f"model {HIDDEN} of hf-inference"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789 is no key", f"{HIDDEN} is no key"),
        ("x-goog-api-key=AIzaSyD-abcdefghijklmnopqrstuvwxyz0123", f"x-goog-api-key={HIDDEN}"),
        ("key AKIAIOSFODNN7EXAMPLE", f"key {HIDDEN}"),
        ("got eyJhbGciOiJIUzI1NiJ9.eyJzdWIi.SflKxwRJ.", f"got {HIDDEN}."),
        ("api-key: 0123456789abcdef0123456789abcdef", f"api-key: {HIDDEN}"),
        ("{'api_key': 'abcd1234efgh', 'x': 1}", f"{{'api_key': '{HIDDEN}', 'x': 1}}"),
        (
            "api_key: required-field; API key provided: test*****3456",
            "api_key: required-field; API key provided: test*****3456",
        ),
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


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("postgresql://me:pa'secret-1@host/db", "postgresql://me:[hidden]@host/db"),
        ('postgresql://me:pa"secret-1@host/db', "postgresql://me:[hidden]@host/db"),
        ("postgresql://me:pa secret-1@host/db", "postgresql://me:[hidden]@host/db"),
        ("postgresql://me:1234/secret-1@host/db", "postgresql://me:[hidden]@host/db"),
        ("postgresql://me:12?secret-1@host/db", "postgresql://me:[hidden]@host/db"),
        ("postgresql://:p@secret-1@host/db", "postgresql://:[hidden]@host/db"),
        ("http://me:pa'secret-1@host/v1", "http://me:[hidden]@host/v1"),
        ("http://me:pa secret-1@host/v1", "http://me:[hidden]@host/v1"),
        ("databricks://secret-1@profile", "databricks://[hidden]@profile"),
        ("mysql://host/db?user=me&passwd=secret-1", "mysql://host/db?user=me&passwd=[hidden]"),
        ("mysql://host/db?passwd=pa'secret-1&x=1", "mysql://host/db?passwd=[hidden]&x=1"),
        ("mysql://host/db?pwd=secret-1", "mysql://host/db?pwd=[hidden]"),
        ("http://host/p?auth=secret-1", "http://host/p?auth=[hidden]"),
        ("postgresql://host/db?options=x;password=secret-1", "postgresql://host/db?options=x;password=[hidden]"),
        ("mssql+pyodbc:///?odbc_connect=D%3Dx%3BPWD%3Dsecret-1", "mssql+pyodbc:///?odbc_connect=[hidden]"),
        ("mssql://host/?x=D%3Dx%3BPWD%3Dsecret-1", "mssql://host/?x=D%3Dx%3BPWD%3D[hidden]"),
        ("sqlite:////a@b/mlflow.db", "sqlite:////a@b/mlflow.db"),
        ("postgresql://host:5432/db?author=me", "postgresql://host:5432/db?author=me"),
    ],
)
def test_no_password_of_a_database_is_shown(uri: str, shown: str) -> None:
    assert hide_in_uri(uri) == shown
    assert hide_in_urls(f"MLflow at {uri} refused") == f"MLflow at {shown} refused"
    assert hide_in_urls(f"'{uri}'") == f"'{shown}'"


def test_long_words_take_no_time() -> None:
    began = time.process_time()
    assert redact("abc-" * 25_000) == "abc-" * 25_000
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "endpoint",
    ["http://h/v1;key=secret-1", "http://h/v1/key/secret-1", "http://h/api-key/secret-1", "http://h/sk-secret-123/v1"],
)
def test_an_endpoint_that_holds_a_key_is_refused_and_not_repeated(endpoint: str) -> None:
    with pytest.raises(JudgeError, match="accepted is a base URL without user, password, key") as caught:
        check_endpoint(endpoint)
    assert "secret-1" not in str(caught.value)


@pytest.mark.parametrize(
    "endpoint",
    ["", "http://[::1]:80/v1", "https://router.huggingface.co/hf-inference/v1", "https://h/v1/0123456789abcdef/gw"],
)
def test_other_endpoints_are_taken(endpoint: str) -> None:
    check_endpoint(endpoint)


@pytest.mark.parametrize("uri", ["http://me:secret-1@host:5000", "https://secret-1@host", "HTTP://me:secret-1@h/p"])
def test_a_server_with_a_password_is_refused(uri: str) -> None:
    with pytest.raises(JudgeError, match="MLFLOW_TRACKING_PASSWORD") as caught:
        check_tracking_uri(uri)
    assert "secret-1" not in str(caught.value)


def test_no_uri_is_refused() -> None:
    """MLflow would make a store where the command runs."""
    with pytest.raises(JudgeError, match="tracking URI is empty: accepted is that of a server"):
        check_tracking_uri(" ")


@pytest.mark.parametrize(
    "uri", ["sqlite:////a@b/mlflow.db", "http://host:5000/p?x=a@b", "postgresql://me:secret-1@host/db", "databricks"]
)
def test_other_stores_are_taken(uri: str) -> None:
    check_tracking_uri(uri)
