from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from labeled_traces.files import parse_json, read_lines, read_text, write_lines
from labeled_traces.trace import TraceError


def test_lines_end_at_newlines_only(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes("\ufeffone\u2028still one\x85\r\n\n  \nthree\rthree".encode())
    assert list(read_lines(path)) == [(1, "one\u2028still one\x85\r\n"), (4, "three\rthree")]
    assert read_text(path) == "one\u2028still one\x85\r\n\n  \nthree\rthree"


def test_lone_surrogates_that_were_written_as_bytes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'"\xed\xa0\xbd"\n')
    assert list(read_lines(path)) == [(1, '"\ud83d"\n')]


@pytest.mark.parametrize("content", [b"ok\n\xff\xfe\x00{\x00", b"ok\n\x1f\x8b\x08\x00\xfa\x00", b"ok\n\x80\x04\x95"])
def test_binary_is_a_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"a\.bin, line 2: not UTF-8 text .*accepted is"):
        list(read_lines(path))


def test_folder_and_missing_file_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"cannot be read .*accepted is"):
        list(read_lines(tmp_path))
    with pytest.raises(TraceError, match=r"none\.jsonl: cannot be read"):
        list(read_lines(tmp_path / "none.jsonl"))


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", "[" * 100_000, '{"a": ' + "9" * 5000 + "}"])
def test_what_is_not_json_names_the_place(text: str) -> None:
    with pytest.raises(TraceError, match="file x, line 7: "):
        parse_json(text, "file x, line 7")


def test_a_write_that_breaks_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.jsonl"
    write_lines(path, ["old"])

    def lines() -> Iterator[str]:
        yield "new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_lines(path, lines())
    assert path.read_text() == "old\n"
    assert [file.name for file in path.parent.iterdir()] == ["a.jsonl"]
