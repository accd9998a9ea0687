from __future__ import annotations

import bz2
import gzip
import json
import lzma
import tracemalloc
from pathlib import Path

import pytest

from labeled_traces.readers.files.records import OTHER_FILE, expand, first_record, read_records
from labeled_traces.readers.report import ReadReport
from labeled_traces.trace import JSON, TraceError


def read(path: Path, text: str) -> tuple[list[tuple[str, JSON]], ReadReport]:
    path.write_text(text, encoding="utf-8")
    report = ReadReport(strict=True)
    return [(where.removeprefix(str(path)), value) for where, value in read_records(path, report)], report


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}\n\n{"a": 2}\n', [(", line 1", {"a": 1}), (", line 3", {"a": 2})]),
        ('{"a": 1}', [(", line 1", {"a": 1})]),
        ('\ufeff{"a": 1}\r\n{"a": 2}', [(", line 1", {"a": 1}), (", line 2", {"a": 2})]),
        ('{"a": "x\u2028y\x85z"}\n{"a": 2}\n', [(", line 1", {"a": "x\u2028y\x85z"}), (", line 2", {"a": 2})]),
        ('[{"a": 1}, {"a": 2}]', [(", line 1, record 1", {"a": 1}), (", line 1, record 2", {"a": 2})]),
        ('[\n {"a": 1},\n {"a": 2}\n]', [(", record 1", {"a": 1}), (", record 2", {"a": 2})]),
        ('{\n "a":\n 1}', [("", {"a": 1})]),
        ('{"data": [{"a": 1}], "next_cursor": null}', [(", line 1, record 1", {"a": 1})]),
    ],
)
def test_every_layout_gives_its_records(tmp_path: Path, text: str, expected: list[tuple[str, JSON]]) -> None:
    records, report = read(tmp_path / "a.json", text)
    assert records == expected
    assert report.counts == {}


@pytest.mark.parametrize(
    ("text", "value", "commas"),
    [
        ('{"a": [1, 2,], }', {"a": [1, 2]}, 2),
        ('{\n "a": ",]",\n "b": "\\",}",\n}', {"a": ",]", "b": '",}'}, 1),
    ],
)
def test_trailing_commas_are_mended_outside_of_texts(tmp_path: Path, text: str, value: JSON, commas: int) -> None:
    records, report = read(tmp_path / "a.json", text)
    assert [record for _, record in records] == [value]
    assert report.counts == {"trailing comma": commas}
    assert report.lines() == [f"{commas} x trailing comma; first: {report.examples['trailing comma'][0]}"]


@pytest.mark.parametrize("text", ["", "\n \n", "\ufeff"])
def test_an_empty_file_is_a_clear_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceError, match=r"a\.json: is empty: accepted is a JSON or JSON Lines file"):
        read(tmp_path / "a.json", text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("hello", r"a\.json: not JSON"),
        ("{'trace_id': 'python repr'}", r"a\.json: not JSON .*line 1 column 2"),
        ('{"a": 1}\n{"a": \n{"a": 3}', r"a\.json, line 2: not JSON"),
        ('{"a": 1} {"a": 2}', r"a\.json: not JSON"),
        ('{\n\n"a": [1,,2]}', r"a\.json: not JSON .*line 3"),
        ("[" * 100_000, r"a\.json: nested too deeply"),
    ],
)
def test_what_is_not_json_names_the_line(tmp_path: Path, text: str, place: str) -> None:
    with pytest.raises(TraceError, match=place):
        read(tmp_path / "a.json", text)


def test_folders_give_their_json_files_once(tmp_path: Path) -> None:
    for name in ("b.json", "deep er/a.jsonl", "notes.txt", "C.NDJSON"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    found = expand([tmp_path, tmp_path / "b.json", tmp_path / "notes.txt"])
    assert [path.name for path in found] == ["C.NDJSON", "b.json", "a.jsonl", "notes.txt"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(TraceError, match=r"empty: a folder without \.json, \.jsonl, \.ndjson, \.parquet files"):
        expand([tmp_path / "empty"])
    with pytest.raises(TraceError, match="nowhere: no such file or folder"):
        expand([tmp_path / "nowhere"])


@pytest.mark.parametrize("end", ["}", ",}"])
def test_a_huge_text_takes_a_few_times_its_size(tmp_path: Path, end: str) -> None:
    text = 'a "quoted" text, with ] and \\ \n' * 70_000
    size = (tmp_path / "a.jsonl").write_text(json.dumps({"text": text})[:-1] + f"{end}\n")
    tracemalloc.start()
    ((_, record),) = read_records(tmp_path / "a.jsonl", ReadReport())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert record["text"] == text
    assert peak < 20 * size  # orjson sets aside twelve times the size, of which it touches little


def test_json_lines_are_streamed(tmp_path: Path) -> None:
    path = tmp_path / "big.jsonl"
    with path.open("w") as file:
        for number in range(50_000):
            file.write(json.dumps({"number": number, "text": "x" * 1000}) + "\n")
    tracemalloc.start()
    assert first_record(path)["number"] == 0
    total = sum(record["number"] for _, record in read_records(path, ReadReport()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == 49_999 * 25_000
    assert peak < 1_000_000  # of 51 MB


def test_what_gzip_packed_is_read_and_what_others_packed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, array = tmp_path / "a.jsonl.gz", tmp_path / "b.JSON.gz"
    lines.write_bytes(gzip.compress(b'{"a": 1}\n{"a": 2}\n'))
    array.write_bytes(gzip.compress(b'[\n{"a": 3},\n{"a": 4}]'))
    (tmp_path / "notes.txt.gz").write_bytes(gzip.compress(b"x"))
    monkeypatch.setattr("labeled_traces.readers.files.json_array.LARGEST", 10)
    report = ReadReport()
    files = expand([tmp_path], report)
    assert files == [lines, array]
    assert report.counts == {OTHER_FILE: 1}
    assert [value["a"] for file in files for _, value in read_records(file, report)] == [1, 2, 3, 4]
    lines.write_bytes(lines.read_bytes()[:-12])
    with pytest.raises(TraceError, match=r"a\.jsonl\.gz: cannot be read \(damaged gzip"):
        list(read_records(lines, report))
    for data, name in ((bz2.compress(b"{}"), "bzip2"), (lzma.compress(b"{}"), "xz"), (b"PK\x03\x04..", "zip")):
        lines.write_bytes(data)
        with pytest.raises(TraceError, match=rf"is compressed \({name}\): accepted are plain files and those of gzip"):
            list(read_records(lines, report))
