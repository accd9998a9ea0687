from __future__ import annotations

import os
import resource
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from labeled_traces.files import parse_json, parse_yaml, read_lines, read_text, read_yaml, write_lines
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


def test_an_interrupt_when_the_file_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    replace = os.replace

    def interrupted(source: str, target: Path) -> None:
        replace(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_lines(path, ["new"])
    assert path.read_text() == "new\n"


def test_yaml_is_a_mapping_of_json_values(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes('\ufeffnote: "2024-01-01"\nsame: &s {x: [1, 2.5, null, true]}\nother: {<<: *s, y: é}\n'.encode())
    x = [1, 2.5, None, True]
    assert read_yaml(path) == {"note": "2024-01-01", "same": {"x": x}, "other": {"x": x, "y": "é"}}


@pytest.mark.parametrize("text", ["010", "-017", "1:30", "1:30.5", "1_000", "0b11", "0o17"])
def test_a_number_of_old_yaml_is_text(text: str) -> None:
    """PyYAML reads 010 as 8 and 1:30 as 90."""
    assert parse_yaml(f"a: {text}", "my.yaml") == {"a": text}


@pytest.mark.parametrize(
    ("text", "number"),
    [("12", 12), ("-5", -5), ("0", 0), ("0x10", 16), ("1.5", 1.5), (".5", 0.5), ("1.0e+3", 1e3), ("010.5", 10.5)],
)
def test_numbers_of_yaml(text: str, number: float) -> None:
    assert parse_yaml(f"a: {text}\nb: !!float {number}", "my.yaml") == {"a": number, "b": number}


@given(st.text("0123456789._eE+-:xob", min_size=1, max_size=6) | st.integers() | st.floats(allow_nan=False))
def test_what_yaml_writes_is_read_as_it_was(value: float | str) -> None:
    read = parse_yaml(yaml.safe_dump({"a": value}), "my.yaml")["a"]
    assert (type(read), read) == (type(value), value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [", "line 2: not readable YAML"),
        ("a: 1\nb: {c: 1, c: 2}", "line 2: .*'c' is there twice"),
        ("a: 1\nday: 2024-01-01", "line 2: .*'2024-01-01' of type timestamp: accepted as text, in quotes"),
        ("a: 1\nday: 2024-13-99", "line 2: .*timestamp"),
        ("a: 1\nb: !!set {x, y}", r"line 2: .*a value \(a mapping\) of type set"),
        ("a: 1\nb: !!int x", "line 2: .*type int"),
        ("a: 1\nb: !!int ''", "line 2: .*type int"),
        ("a: 1\nb: !!int 010", "line 2: .*'010' of type int"),
        ("a: 1\nb: !!int 1:30", "line 2: .*'1:30' of type int"),
        ("a: 1\nb: !!float 1:30.5", "line 2: .*'1:30.5' of type float"),
        ("a: 1\nb: " + "9" * 5000, "line 2: .*'9{80}' of type int"),
        ("a: 1\n404: x", "line 2: .*key '404' that is no text"),
        ("a: 1\n? [1]\n: x", r"line 2: .*key \(a sequence\)"),
        ("a: 1\nb: &b [*b]", "line 2: .*nested too deeply"),
        ("a: 1\nb: " + "[" * 5000, "line 2: nested too deeply"),
        ("a: 1\nb: " + "[" * 60 + "]" * 60, "line 2: .*nested too deeply"),
        ("a: 1\nb: \x00", "line 2: .*special characters"),
        ("a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{f'*a{i - 1},' * 9}]\n" for i in range(1, 10)), ".*more than 100000"),
        ("a: 1\n---\nb: 2", "line 2: .*another document"),
        ("", "is empty: accepted is a YAML mapping"),
        ("- a", "is list: accepted is a YAML mapping"),
    ],
)
def test_a_fault_in_yaml_names_file_and_line(text: str, message: str) -> None:
    with pytest.raises(TraceError, match=f"^my.yaml(, |: ){message}"):
        parse_yaml(text, "my.yaml")


def test_a_yaml_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"none\.yaml: cannot be read .*accepted is a YAML file"):
        read_yaml(tmp_path / "none.yaml")
    (tmp_path / "a.yaml").write_bytes(b"a: 1\nb: \xff")
    with pytest.raises(TraceError, match=r"a\.yaml, line 2: not UTF-8 text .*accepted is a YAML file"):
        read_yaml(tmp_path / "a.yaml")


def test_a_place_where_no_file_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path, message in [
        (tmp_path, "is a folder: accepted is the name of a file"),
        (tmp_path / "file" / "deep" / "a", "file is a file, no folder"),
        (tmp_path / ("a" * 300), "cannot be written"),
        (pipe, "is a device or a pipe: accepted is the name of a file"),
        (link, "is a device or a pipe"),
        (Path("/dev/stdout"), "is a device or a pipe"),
    ]:
        with pytest.raises(TraceError, match=message):
            write_lines(path, ["a"])
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert link.is_symlink()


def test_a_full_disk_leaves_nothing_and_names_the_file(tmp_path: Path) -> None:
    """As a limit on the size of files, which gives such an error."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1][1]))
    try:
        with pytest.raises(TraceError, match=r"a: cannot be written \(File too large\)"):
            write_lines(tmp_path / "a", ["x" * 2000])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before[1])
        signal.signal(signal.SIGXFSZ, before[0])
    assert not list(tmp_path.iterdir())
