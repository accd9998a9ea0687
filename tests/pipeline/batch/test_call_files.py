"""Calls are written to files that a provider takes, whole or not at all."""

from __future__ import annotations

import json
import resource
import signal
from pathlib import Path

import pytest

from judges.lm import LMRequest, Message
from pipeline.batch import call_files
from pipeline.batch.call_files import CallFiles
from pipeline.config import PipelineError


def request(number: int, model: str = "simulated/default", text: str = "x") -> LMRequest:
    return LMRequest(model, (Message("user", text),), repeat=number)


def repeats(path: Path) -> list[int]:
    return [int(json.loads(line)["custom_id"].rpartition("-")[2]) for line in path.read_text().splitlines()]


def export(path: Path, *requests: LMRequest) -> list[str]:
    with CallFiles(path) as files:
        for one in requests:
            files.add(one)
    return [one.name for one in files.files]


def test_a_provider_is_not_given_more_than_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(call_files.LIMITS, "simulated", (3, 10**6))
    assert export(tmp_path / "calls.jsonl", *map(request, range(7))) == [f"calls-{i}.jsonl" for i in (1, 2, 3)]
    assert [repeats(path) for path in sorted(tmp_path.iterdir())] == [[0, 1, 2], [3, 4, 5], [6]]


def test_nor_more_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(call_files.LIMITS, "simulated", (100, 2500))
    export(tmp_path / "calls.jsonl", *(request(i, text="é" * 400) for i in range(5)))
    assert [repeats(path) for path in sorted(tmp_path.iterdir())] == [[0, 1], [2, 3], [4]]
    assert all(path.stat().st_size <= 2500 for path in tmp_path.iterdir())


def test_a_batch_is_of_one_model(tmp_path: Path) -> None:
    other = "simulated/forgetful"
    export(tmp_path / "calls.jsonl", request(0), request(1, other), request(2), request(3, other))
    assert [repeats(path) for path in sorted(tmp_path.iterdir())] == [[0, 2], [1, 3]]


def test_an_earlier_export_is_replaced_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("calls-x.jsonl", "calls-1.json", "recalls-1.jsonl"):
        (tmp_path / name).write_text("mine")
    with monkeypatch.context() as patch:
        patch.setitem(call_files.LIMITS, "simulated", (2, 10**6))
        export(tmp_path / "calls.jsonl", *map(request, range(6)))
    assert (tmp_path / "calls-3.jsonl").exists()
    export(tmp_path / "calls.jsonl", request(0))
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"calls.jsonl", "calls-x.jsonl", "calls-1.json", "recalls-1.jsonl"}


@pytest.mark.parametrize("content", ["", "notes", '{"custom_id": "gpa-1-0", "text": ""}', "[1]", "\xff"])
@pytest.mark.parametrize("name", ["calls.jsonl", "calls-2.jsonl"])
def test_a_file_of_something_else_is_left_alone(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="latin-1")
    with pytest.raises(PipelineError, match=f"{name} is there and holds no calls of ours"):
        export(tmp_path / "calls.jsonl", request(0))
    assert (tmp_path / name).read_text(encoding="latin-1") == content


def test_an_error_on_the_way_leaves_what_was_there(tmp_path: Path) -> None:
    export(tmp_path / "calls.jsonl", request(0))
    lost = request(1, "simulated/default")
    lost.__dict__["key"] = None  # what no line can be made of
    with pytest.raises(TypeError):
        export(tmp_path / "calls.jsonl", request(2), lost)
    assert [path.name for path in tmp_path.iterdir()] == ["calls.jsonl"]
    assert repeats(tmp_path / "calls.jsonl") == [0]


def test_where_nothing_is_left_to_call_there_is_no_file(tmp_path: Path) -> None:
    export(tmp_path / "calls.jsonl", request(0))
    assert export(tmp_path / "calls.jsonl") == []
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_nothing_and_names_the_file(tmp_path: Path) -> None:
    """As a limit on the size of files, which gives such an error: as late as when the last file is closed."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1][1]))
    try:
        for text in ("x" * 2000, "x" * 20_000):
            with pytest.raises(PipelineError, match=r"calls.jsonl: cannot be written \(File too large\)"):
                export(tmp_path / "calls.jsonl", request(0, text=text))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before[1])
        signal.signal(signal.SIGXFSZ, before[0])
    assert not list(tmp_path.iterdir())
