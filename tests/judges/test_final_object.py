from __future__ import annotations

from judges.final_object import final_object


def test_the_last_object_of_several() -> None:
    assert final_object('{"a": 1} and {"b": 2}') == ({"b": 2}, "")
    assert final_object("nothing") == (None, "it holds no JSON object")
    assert final_object('{"a": [1, 2}') == (None, "its JSON is broken")
