from __future__ import annotations

import json
from pathlib import Path

import pytest

from labeled_traces.readers.files import json_array
from labeled_traces.readers.files.json_array import read_array
from labeled_traces.readers.files.records import first_record, read_records
from labeled_traces.readers.report import ReadReport
from labeled_traces.trace import JSON, TraceError

ITEMS = [{"n": n, "text": 'a "[]", {} – \\ \n' * n, "more": [[n], {"x": None}]} for n in range(40)]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_array, "LARGEST", 0)
    monkeypatch.setattr(json_array, "_PIECE", 50)


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("form", ["{}", " \n{}\n\n", '{{"data": {}}}', "\ufeff{}"])
def test_the_items_are_those_of_the_whole(tmp_path: Path, indent: int | None, form: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(form.format(json.dumps(ITEMS, indent=indent, ensure_ascii=False)), encoding="utf-8")
    found = list(read_records(path, ReadReport()))
    assert [item for _, item in found] == ITEMS
    assert found[2][0] == f"{path}, record 3"
    assert first_record(path) == ITEMS[0]


@pytest.mark.parametrize("cut", [200, 900, -1])
def test_damage_is_an_error_after_what_could_be_read(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(ITEMS)[:cut])
    found: list[JSON] = []
    with pytest.raises(TraceError, match=r"a.json, record \d+: not JSON .* records before it were read"):
        found.extend(read_array(path))
    assert found == ITEMS[: len(found)]


def test_a_comma_too_many_is_mended_and_what_follows_the_array_is_told(tmp_path: Path) -> None:
    path, report = tmp_path / "a.json", ReadReport()
    path.write_text(json.dumps(ITEMS)[:-2] + ",},]")
    assert [item for _, item in read_records(path, report)] == ITEMS
    assert report.counts == {"trailing comma": 2}
    path.write_text(json.dumps(ITEMS) + "\n" + json.dumps(ITEMS))
    with pytest.raises(TraceError, match="more stands after its array"):
        list(read_records(path, report))
