"""The ways in which a text may stand where it was copied to: numbered, with tags, broken into lines, encoded."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from urllib.parse import unquote

_LINE_END = re.compile(r"(?<!\\)\\+[rn]|\r")
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>")
_SEPARATOR = re.compile(r"(?<=\d)[,'’](?=\d{3}(?!\d))")
_MARK = r"(?:[ \t]*(?:[-+>|*#•]+|(?:[A-Za-z]{1,5}[ .]?)?\d+(?:[.):\]]|[ \t]?\|)?)(?:[ \t]|$))+"
_START = re.compile(rf"^{_MARK}", re.MULTILINE)
_BREAK = re.compile(rf"(?:(?<=\w)-)?\n(?:{_MARK})?")
_PERCENT = re.compile("%[0-9A-Fa-f]{2}")
_BLOB = re.compile(r"[\w+/-]{24,}={0,2}(?:\s+[\w+/-]{24,}={0,2})*", re.ASCII)
_WHOLE = 0.9
"""Bytes of which fewer are Unicode are no text."""
_NESTED = 3


def readings(text: str, nested: int = _NESTED) -> Iterator[str]:
    """The text; where they differ, the text `without_marks`, also with its lines put together as they are (words that
    were broken anywhere are whole again); and each text that is in it in base64, hexadecimal or percent codes, up to
    `nested` times one in the other."""
    yield from dict.fromkeys((text, without_marks(text), _BREAK.sub("", _shown(text))))
    if nested:
        for inner in _encoded(text):
            yield from readings(inner, nested - 1)


def without_marks(text: str) -> str:
    """The text without tags, without the numbers and marks that its lines begin with, and with 1000 for 1,000."""
    return _START.sub("", _shown(text))


def _shown(text: str) -> str:
    return _SEPARATOR.sub("", _TAG.sub(" ", _LINE_END.sub("\n", text)))


def _encoded(text: str) -> Iterator[str]:
    if _PERCENT.search(text):
        yield unquote(text)
    for found in _BLOB.finditer(_LINE_END.sub("\n", text)):
        blob = re.sub(r"[\s=]", "", found[0])
        for decode in (bytes.fromhex, _from_base64):
            try:
                data = decode(blob)
            except (ValueError, binascii.Error):
                continue
            inner = data.decode("utf-8", "ignore")
            if len(inner.encode()) >= _WHOLE * len(data):
                yield inner
                break


def _from_base64(blob: str) -> bytes:
    return base64.urlsafe_b64decode(blob.replace("+", "-").replace("/", "_") + "=" * (-len(blob) % 4))
