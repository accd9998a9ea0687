"""Long texts searched by pydantic's regular expressions, which read a text once, whatever they look for.

A text that is not ASCII keeps what it is encoded as for that: a further look at it, or writing it by orjson, costs no
encoding.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator


@cache
def text_search(pattern: str) -> SchemaValidator:
    """`isinstance_python(text)` is whether `pattern` is in it; never in a text with a lone surrogate."""
    from pydantic_core import SchemaValidator, core_schema

    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True))


def is_valid(text: str) -> bool:
    """Whether a text can be written: it holds no lone surrogate."""
    return text.isascii() or text_search("").isinstance_python(text)
