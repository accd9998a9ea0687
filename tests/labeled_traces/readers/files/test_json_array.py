from __future__ import annotations

import json
from pathlib import Path

import pytest

from labeled_traces.readers.files import json_array
from labeled_traces.readers.files.json_array import read_array
from labeled_traces.readers.files.records import first_record, read_records
from labeled_traces.readers.report import RECORD, ReadReport
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


@pytest.mark.parametrize("indent", [None, 1])
def test_a_document_of_otlp_gives_its_spans_one_by_one(tmp_path: Path, indent: int | None) -> None:
    spans = [{"spanId": f"{n:016x}", "name": 'a "spans": [{' * n} for n in range(20)]
    scopes = [{"scope": {"name": "s"}, "spans": spans[at : at + 7]} for at in (0, 7, 14)]
    whole = {
        "resourceSpans": [
            {"resource": {"attributes": []}, "scopeSpans": scopes[:2]},
            {"scopeSpans": [{"spans": []}, scopes[2], {"spans": None}]},
            "no resource",
        ],
        "resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "x"}}]}]}],
    }
    path = tmp_path / "a.json"
    path.write_text(json.dumps(whole, indent=indent))
    found = [record for _, record in read_records(path, ReadReport())]
    assert found == [
        *({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]} for span in spans),
        {"resourceSpans": [{"scopeSpans": [{"spans": None}]}]},
        {"resourceSpans": ["no resource"]},
        {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "x"}}]}]}]},
    ]


def test_lines_of_otlp_stay_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_array, "LARGEST", 150)
    lines = [{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": n}, {"name": n}]}]}]} for n in "abc"]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [record for _, record in read_records(path, ReadReport())] == lines
    path.write_text('{"resourceSpans": [{"scopeSpans": [,\n' + path.read_text())
    report = ReadReport()
    assert [record for _, record in read_records(path, report)] == lines
    assert list(report.counts) == [RECORD]


@pytest.mark.parametrize("form", ['{{"runs": {}}}', '{{"n": 1, "more": [[{{}}]], "data": {}, "next": null}}'])
def test_a_list_in_a_mapping_gives_its_items(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(form.format(json.dumps(ITEMS)))
    assert [item for _, item in read_records(path, ReadReport())] == ITEMS


def test_a_mapping_without_such_a_list_stays_whole(tmp_path: Path) -> None:
    for record in ({"trace_id": "t", "data": ITEMS}, {"inner": {"runs": ITEMS}}):
        path = tmp_path / "a.json"
        path.write_text(json.dumps(record))
        assert [item for _, item in read_records(path, ReadReport())] == [record]


@pytest.mark.parametrize("end", ["", "}]}", "}]}], 1: 2}"])
def test_damage_in_a_document_is_told_behind_what_was_read(tmp_path: Path, end: str) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "a"}, {"name": "b"}]' + end)
    found: list[JSON] = []
    with pytest.raises(TraceError, match=r"a.json, record 3: not JSON .* 2 records before it were read"):
        found.extend(record for _, record in read_records(path, ReadReport()))
    assert len(found) == 2
