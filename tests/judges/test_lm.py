from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from judges.lm import LMRequest, Message
from labeled_traces.trace import text_hash

MESSAGES = (Message("system", "Judge."), Message("user", "{}\ud83d é"))
REQUEST = LMRequest("openai/gpt-5", MESSAGES, 0.7, 100, {"title": "reply", "enum": ["a"]}, "http://here/v1", 3, 1)


@pytest.mark.parametrize("request_", [REQUEST, LMRequest("m", ())])
def test_the_key_is_the_hash_of_all_fields(request_: LMRequest) -> None:
    """Ledgers outlive releases: the same call must keep its key."""
    fields = asdict(request_)
    for message in fields["messages"]:
        del message["shared"]
    assert request_.key == text_hash(json.dumps(fields, sort_keys=True, ensure_ascii=True))


def test_what_a_cache_is_told_is_no_part_of_the_call() -> None:
    hinted = replace(REQUEST, messages=(MESSAGES[0], replace(MESSAGES[1], shared=2)))
    assert (hinted, hinted.key) == (REQUEST, REQUEST.key)


def test_the_key_of_a_call_never_changes() -> None:
    assert REQUEST.key == "b66cd1aab8f1a1bf14aba4197af012c511ab1dbde618a9d34e16e78fcabaf7ab"


def test_every_field_is_in_the_key() -> None:
    changes: dict[str, Any] = {
        "model": "openai/gpt-4",
        "messages": MESSAGES[:1],
        "temperature": 0.6,
        "max_tokens": 101,
        "schema": None,
        "endpoint": "",
        "seed": None,
        "repeat": 2,
    }
    assert set(changes) == set(asdict(REQUEST))
    keys = {replace(REQUEST, **{name: value}).key for name, value in changes.items()}
    assert len(keys | {REQUEST.key}) == len(changes) + 1


def test_asking_for_the_key_changes_nothing() -> None:
    fresh = replace(REQUEST)
    assert REQUEST.key == fresh.key
    assert fresh == REQUEST
    assert asdict(fresh) == asdict(REQUEST)
