"""Damaged files of every format: a result, with a warning where something is lost, or an error that says where. Never a
crash, a hang or a silent loss.

GPA_CHANGED_INPUTS: how many changed inputs a format is read from. GPA_LONG_TEXT: megabytes of the long text.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from judges.render import render
from labeled_traces.dataset import Dataset, from_json, to_json
from labeled_traces.quick_json import dumps, loads
from labeled_traces.readers.report import ReadReport
from labeled_traces.trace import JSON, TraceError
from pipeline.cli import main

if TYPE_CHECKING:
    from tests.labeled_traces.readers.conftest import Sample

EXAMPLES = int(os.environ.get("GPA_CHANGED_INPUTS", "500"))
MEGABYTES = int(os.environ.get("GPA_LONG_TEXT", "5"))
TOKENS = 100_000
_INSIDE = "json"
_OPENED = "\x01"
_HERE = "\x02"
Place = tuple[JSON, JSON]
"""What holds a value, and its key or index there."""


class Case:
    """A sample that may be changed; texts that are JSON are changed inside as well.

    What was said more than once is told apart by a number, so that it is seen where it is lost once.
    """

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.records: dict[str, list[JSON]] = _opened(sample.records)
        for start, record in enumerate(row for rows in self.records.values() for row in rows):
            first = 0 if sample.name == "mp_bench" else start * 1_000  # what two people say of one and the same run
            for number, (holder, key) in enumerate(places_in(record), first):
                if "category" not in str(key) and isinstance(holder[key], str) and sample.said(holder[key]):
                    holder[key] += f" ({number})"

    @property
    def places(self) -> list[Place]:
        """Of values; an attribute of OTLP under another name is another attribute."""
        return [place for rows in self.records.values() for place in places_in(rows) if place[1] != "key"]

    @property
    def said(self) -> set[str]:
        return self.sample.said(_closed(self.records))

    def read(self, folder: Path, instead: str = "null") -> tuple[Dataset, ReadReport] | None:
        """What the changed files hold, None after an error that says where. Any other exception fails the test."""
        paths = {}
        for part, rows in self.records.items():
            paths[part] = folder / f"{self.sample.name}.{part}.jsonl"
            lines = (_written(row, instead) for row in rows)
            paths[part].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        error: TraceError | None = None
        try:
            dataset, report = self.sample.read(paths["traces"], paths.get("labels"))
        except TraceError as refused:
            error = refused
        if error is not None:
            assert any(str(path) in str(error) for path in paths.values()), f"says where: {error}"
            return None
        for row in dataset:
            render(row.trace, TOKENS)
            assert to_json(from_json(loads(dumps(to_json(row)).decode()), "")) == to_json(row)
        return dataset, report


def _opened(value: JSON) -> JSON:
    """A copy in which a text that is a JSON object or array is `{_OPENED: value}`."""
    if isinstance(value, dict):
        return {key: _opened(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_opened(item) for item in value]
    if isinstance(value, str) and value[:1] in ("{", "["):
        return {_OPENED: json.loads(value)}
    return value


def _closed(value: JSON, instead: str = "null") -> JSON:
    if isinstance(value, dict):
        if value.keys() == {_OPENED}:
            return _written(value[_OPENED], instead)
        return {key: _closed(item, instead) for key, item in value.items()}
    return [_closed(item, instead) for item in value] if isinstance(value, list) else value


def _written(value: JSON, instead: str) -> str:
    """As JSON, with another text of JSON instead of the value _HERE."""
    return json.dumps(_closed(value, instead)).replace(json.dumps(_HERE), instead)


def places_in(value: JSON) -> Iterator[Place]:
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(item, dict | list):
            yield from places_in(item)


_ODD: list[JSON] = [
    *(None, True, -1, 0, 1e308, float("nan"), float("-inf"), 10**30, "", " ", "x", "null", "-7", "2", "0x", "1e999"),
    *(
        [],
        {},
        [None],
        [[]],
        {"": {}},
        {"a": 1},
        "\ud800 half of it",
        "a nul \x00 in it",
        "{not json",
        '{"a": ["\\ud800"]}',
    ),
    *("\u2028", "2023-11-14T22:13:20Z", "9" * 400),
]


def _delete(here: Place, _: Place, _number: int) -> None:
    del here[0][here[1]]


def _make_odd(here: Place, _: Place, number: int) -> None:
    here[0][here[1]] = json.loads(json.dumps(_ODD[number % len(_ODD)]))


def _copy(here: Place, there: Place, _: int) -> None:
    """One kind of value where another belongs. What was said there is said once more, and not looked for here."""
    here[0][here[1]] = json.loads(json.dumps(there[0][there[1]]).replace(" (", " ["))


def _repeat(here: Place, _: Place, number: int) -> None:
    if isinstance(here[0], list):
        here[0].insert(number % (len(here[0]) + 1), json.loads(json.dumps(here[0][here[1]])))


def _wrap(here: Place, _: Place, number: int) -> None:
    """A mapping in lists, since all names in another mapping are other names."""
    in_lists = number % 2 or isinstance(here[0][here[1]], dict)
    for _level in range(number % 80):
        here[0][here[1]] = [here[0][here[1]]] if in_lists else {"in": here[0][here[1]]}


def _as_text(here: Place, _: Place, _number: int) -> None:
    here[0][here[1]] = json.dumps(_closed(here[0][here[1]]))


def _dirty(here: Place, _: Place, number: int) -> None:
    if isinstance(here[0][here[1]], str):
        here[0][here[1]] += ("\x00", "\ud800", "\udfff\x00", " ", "\r\n", "\ufeff")[number % 6]


IDS = ("span_id", "spanId", "id")
PARENTS = ("parent_id", "parent_span_id", "parentSpanId", "parent_run_id", "parentObservationId")
_ANYWHERE = (_delete, _make_odd, _copy, _repeat, _wrap, _as_text, _dirty)


def changed(sample: Sample, number: int) -> Case:
    """The sample after one to three changes, the same ones each time."""
    drawn = random.Random(number)
    case = Case(sample)
    for _ in range(drawn.randint(1, 3)):
        _change(case, *(drawn.randrange(10**6) for _ in range(4)))
    return case


def _change(case: Case, how: int, at: int, to: int, number: int) -> None:
    """Every third change is one of ids (a missing parent, a circle, an id twice), every third one of times."""
    places = case.places
    if how % 3 == 0:
        places = [place for place in places if "id" in str(place[1]).lower()] or places
    elif how % 3 == 1:
        places = [
            place for place in places if "time" in str(place[1]).lower() or place[1] in ("start", "end")
        ] or places
    own, above = ([place for place in places if place[1] in names] for names in (IDS, PARENTS))
    if own and above and how % 6 == 0:
        holders = above if number % 2 else own
        _copy(holders[at % len(holders)], own[to % len(own)], number)
    elif places:
        change = _copy if how % 6 < 2 else _ANYWHERE[how // 6 % len(_ANYWHERE)]
        change(places[at % len(places)], places[to % len(places)], number)


def _says_more(report: ReadReport, usual: ReadReport) -> bool:
    grown = any(count > usual.counts.get(kind, 0) for kind, count in report.counts.items())
    return grown or bool(report.stripped - usual.stripped) or len(report.unjoined) > len(usual.unjoined)


def test_changed_inputs(sample: Sample, tmp_path: Path) -> None:
    whole = Case(sample)
    read_whole = whole.read(tmp_path)
    assert read_whole is not None
    dataset, usual = read_whole
    kept = {words for words in whole.said if words in sample.text(dataset)}
    assert len(kept) >= 7

    lost: dict[int, list[str]] = {}
    for number in range(EXAMPLES):
        case = changed(sample, number)
        result = case.read(tmp_path)
        if result is None or _says_more(result[1], usual):
            continue
        removed = len(whole.records["traces"]) > len(case.records["traces"])
        assert removed or len(result[0]) >= len(dataset), number
        written = sample.text(result[0])
        if missing := [words for words in kept & case.said if words not in written]:
            lost[number] = missing
    assert lost == {}, "numbers of changed inputs, and what was lost of them without a word"


@pytest.mark.parametrize("levels", [100, 5_000])
def test_deep_nesting(sample: Sample, levels: int, tmp_path: Path) -> None:
    """Once for each name that anything has."""
    names = {str(key): number for number, (_, key) in enumerate(Case(sample).places)}
    for number in names.values():
        case = Case(sample)
        holder, key = case.places[number]
        holder[key] = _HERE
        case.read(tmp_path, '{"a": [' * (levels // 2) + "1" + "]}" * (levels // 2))


def test_a_very_long_text(sample: Sample, tmp_path: Path) -> None:
    case = Case(sample)
    said = [(holder, key) for holder, key in case.places if "The library opens at nine" in str(holder[key])]
    holder, key = said[-1]
    holder[key] = "long " * (MEGABYTES * 200_000)
    result = case.read(tmp_path)
    assert result is not None
    assert _says_more(result[1], sample.imported[1]), "a text that long is cut, and that is said"


@pytest.mark.parametrize("instead", ['{"a": [' * 2_500 + "1" + "]}" * 2_500, json.dumps("long " * 1_000_000)])
def test_the_command_says_what_is_wrong(
    sample: Sample, instead: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nesting of 5,000 and a text of 5 MB: written with warnings (0), or refused (2); never a traceback."""
    case = Case(sample)
    holder, key = next(place for place in case.places if "The library opens at nine" in str(place[0][place[1]]))
    holder[key] = _HERE
    path, out = tmp_path / sample.path.name, tmp_path / "data.jsonl"
    path.write_text("".join(f"{_written(row, instead)}\n" for row in case.records["traces"]), encoding="utf-8")
    code = main(["import", str(path), "--format", sample.name, "--out", str(out)])
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err
    if code == 0:
        assert "warnings:" in said.out
        assert Dataset.load(out)
    else:
        assert (code, out.exists()) == (2, False)
        assert str(path) in said.err
