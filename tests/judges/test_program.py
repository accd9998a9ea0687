from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.decision import DecisionRule
from judges.judgment import HOLISTIC
from judges.lm import JudgeError
from judges.program import PARTS, JudgeProgram, JudgeSuite, Knobs, seed_program, seed_suite
from labeled_traces.label import DIMENSIONS, Impact

EXAMPLE = json.dumps({"excerpt": "x", "findings": [{"explanation": "y"}], "score": 1, "trace_id": "t"})
TEXTS = st.text(max_size=60)


def program(**changes: Any) -> JudgeProgram:
    return JudgeProgram(**{"dimension": "tool_calling", "rubric": "Judge the calls.", **changes})


# --- one program


@pytest.mark.parametrize("name", [*DIMENSIONS, HOLISTIC])
def test_every_judge_has_a_seed_without_notes_and_examples(name: str) -> None:
    seed = seed_program(name)
    assert (seed.dimension, seed.origin, seed.parent) == (name, "seed", None)
    assert seed.rubric
    assert seed.output_template
    assert seed.architecture_notes == seed.examples == ""
    assert seed == seed_program(name)


def test_there_is_no_seed_for_anything_else() -> None:
    with pytest.raises(JudgeError, match="no rubric for 'safety'"):
        seed_program("safety")


def test_hashes_are_stable_and_see_every_part_and_knob() -> None:
    base = program()
    assert base.hash == program().hash
    assert len(base.hash) == 16
    others = [
        program(rubric="Judge the calls!"),
        program(dimension="plan_quality"),
        program(architecture_notes="n"),
        program(examples=EXAMPLE),
        program(output_template="o"),
        *(
            base.with_knobs(**{name: value})
            for name, value in {
                "model": "m",
                "endpoint": "http://127.0.0.1:1/v1",
                "temperature": 0.1,
                "max_tokens": 100,
                "trace_tokens": 300,
                "max_examples": 1,
                "example_order": "reversed",
                "plan_extraction": False,
                "layout": "mlflow",
            }.items()
        ),
    ]
    assert len({base.hash, *(other.hash for other in others)}) == len(others) + 1


def test_where_a_program_came_from_is_not_in_its_hash() -> None:
    assert program(parent="abc", origin="gepa").hash == program().hash


def test_the_hash_of_a_known_program_is_written_down() -> None:
    """A change of this value makes every recorded run unreadable: it must be on purpose."""
    assert program(knobs=Knobs(model="m")).hash == "d38dda86725dabe6"


def test_children_know_their_parent_and_leave_it_alone() -> None:
    base = program()
    child = base.with_parts({"rubric": "New."}, origin="gepa")
    assert (child.rubric, child.parent, child.origin, child.knobs) == ("New.", base.hash, "gepa", base.knobs)
    assert base.rubric == "Judge the calls."
    grandchild = child.with_knobs(temperature=0)
    assert (grandchild.parent, grandchild.origin, grandchild.knobs.temperature) == (child.hash, "knobs", 0)
    assert child.with_knobs(temperature=0.7) is child


def test_unknown_parts_are_refused() -> None:
    with pytest.raises(JudgeError, match="unknown part notes: accepted are rubric, architecture_notes"):
        program().with_parts({"notes": "x"}, "test")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dimension": "safety"}, "'safety' is unknown: accepted are goal_fulfillment"),
        ({"rubric": " \n"}, "empty rubric"),
        ({"rubric": "a\ud800b"}, "program's rubric, character 1: a lone surrogate"),
        ({"output_template": "\udfff"}, "output_template, character 0"),
        ({"examples": "not json"}, "examples, line 1: accepted is"),
        ({"examples": f"{EXAMPLE}\n\n[1]"}, "examples, line 3"),
        ({"examples": "3"}, "line 1"),
        ({"examples": '{"findings": []}'}, "line 1"),
        ({"examples": '{"excerpt": "x"}'}, "line 1"),
        ({"examples": '{"excerpt": 1, "findings": []}'}, "line 1"),
        ({"examples": '{"excerpt": "x", "findings": {}}'}, "line 1"),
        ({"examples": '{"excerpt": "x", "findings": ["text"]}'}, "line 1"),
        ({"examples": '{"excerpt": "x", "findings": [], "score": 4}'}, "line 1"),
        ({"examples": '{"excerpt": "x", "findings": [], "score": true}'}, "line 1"),
        ({"examples": '{"excerpt": "x", "findings": [], "score": "3"}'}, "line 1"),
        ({"examples": "[" * 100_000}, "line 1"),
    ],
)
def test_bad_programs(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(JudgeError, match=message):
        program(**changes)


@pytest.mark.parametrize("score", [None, 0, 3, "not_applicable"])
def test_scores_that_an_example_may_have(score: Any) -> None:
    row = {"excerpt": "x", "findings": [], "score": score}
    assert program(examples=json.dumps(row)).shown_examples == [row]


def test_only_line_feeds_separate_examples() -> None:
    rows = [{"excerpt": "a\u2028b\x85\x0cc", "findings": [], "score": 3}, {"excerpt": "d", "findings": []}]
    text = "\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\r\n"
    assert program(examples=text).shown_examples == rows


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temperature": -0.1}, "temperature is -0.1: accepted is a number from 0.0 to 2.0"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"temperature": "hot"}, "temperature is 'hot'"),
        ({"temperature": True}, "temperature is True"),
        ({"max_tokens": 63}, "whole number from 64"),
        ({"max_tokens": 100.5}, "whole number"),
        ({"trace_tokens": 0}, "trace_tokens is 0"),
        ({"max_examples": -1}, "max_examples is -1"),
        ({"example_order": "random"}, "as_written and reversed"),
        ({"plan_extraction": "yes"}, "plan_extraction is 'yes': accepted are true and false"),
        ({"layout": "chat"}, "layout is 'chat': accepted are shared_prefix and mlflow"),
        ({"endpoint": None}, "endpoint is None"),
        ({"endpoint": "http://host/v1?api_key=12345678"}, "endpoint http://host/v1: accepted is a base URL"),
        ({"model": ""}, "model is ''"),
        ({"model": 5}, "model is 5"),
        ({"modle": "x"}, "modle"),
    ],
)
def test_bad_knobs(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(JudgeError, match=message):
        program().with_knobs(**changes)


# --- its folder


def test_the_folder_holds_plain_files(tmp_path: Path) -> None:
    base = program(architecture_notes="Zürich 😀\n", examples=EXAMPLE, parent="abc", origin="gepa")
    base.save(tmp_path / "a" / "b")
    folder = tmp_path / "a" / "b"
    assert {path.name for path in folder.iterdir()} == {*PARTS.values(), "knobs.yaml", "program.yaml"}
    assert (folder / "architecture_notes.md").read_bytes() == "Zürich 😀\n".encode()
    about = yaml.safe_load((folder / "program.yaml").read_text(encoding="utf-8"))
    assert about == {"dimension": "tool_calling", "hash": base.hash, "parent": "abc", "origin": "gepa"}
    assert JudgeProgram.load(folder) == base


@settings(max_examples=50)
@given(
    st.builds(
        JudgeProgram,
        dimension=st.sampled_from([*DIMENSIONS, HOLISTIC]),
        rubric=TEXTS.filter(lambda text: bool(text.strip())),
        architecture_notes=TEXTS,
        output_template=TEXTS,
        examples=st.lists(st.builds(lambda t: json.dumps({"excerpt": t, "findings": []}), TEXTS)).map("\r\n".join),
        parent=st.none() | st.sampled_from(["1234567890123456", "12345e6789012345", "0123456789012345"]),
        origin=TEXTS,
        knobs=st.builds(
            Knobs,
            temperature=st.floats(0, 2),
            max_examples=st.integers(0, 100),
            endpoint=st.sampled_from(["", "http://[::1]:80/v1", "https://host/a%20b"]),
        ),
    )
)
def test_folder_round_trip(tmp_path_factory: pytest.TempPathFactory, base: JudgeProgram) -> None:
    folder = tmp_path_factory.mktemp("program")
    base.save(folder)
    loaded = JudgeProgram.load(folder)
    assert loaded == base
    assert loaded.hash == base.hash


def test_a_file_that_was_edited_makes_a_child(tmp_path: Path) -> None:
    base = program()
    base.save(tmp_path)
    (tmp_path / "rubric.md").write_text("Edited.", encoding="utf-8")
    edited = JudgeProgram.load(tmp_path)
    assert (edited.rubric, edited.parent, edited.origin) == ("Edited.", base.hash, "edited")
    assert edited.hash != base.hash


def test_a_folder_written_by_hand_needs_no_hash(tmp_path: Path) -> None:
    program().save(tmp_path)
    (tmp_path / "program.yaml").write_text("dimension: tool_calling\n", encoding="utf-8")
    loaded = JudgeProgram.load(tmp_path)
    assert (loaded.parent, loaded.origin, loaded.hash) == (None, "unknown", program().hash)


def test_saving_again_replaces(tmp_path: Path) -> None:
    program(architecture_notes="long " * 100).save(tmp_path)
    program().save(tmp_path)
    assert JudgeProgram.load(tmp_path) == program()


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("program.yaml", "origin: x\n", "accepted are dimension, hash, parent and origin"),
        ("program.yaml", "- 1\n", "accepted is a YAML mapping"),
        ("program.yaml", "", "accepted is a YAML mapping"),
        ("program.yaml", "a: [", "is not a judge program"),
        ("program.yaml", "dimension: [a]\n", "`dimension` is .'a'.: accepted is a text"),
        ("program.yaml", "dimension: 3\n", "`dimension` is 3: accepted is a text"),
        ("program.yaml", "dimension: x\n", "'x' is unknown"),
        ("program.yaml", "dimension: tool_calling\nparent: 7\n", "`parent` is 7: accepted is a text"),
        ("program.yaml", "dimension: tool_calling\norigin: null\n", "`origin` is None: accepted is a text"),
        ("program.yaml", "dimension: tool_calling\nborn: x\n", "accepted are dimension, hash, parent and origin"),
        ("program.yaml", "dimension: tool_calling\nparent: 2026-01-01\n", "line 2"),
        ("program.yaml", "dimension: tool_calling\ndimension: plan_quality\n", "line 2"),
        ("knobs.yaml", "temperature: 0.1\ntemperature: 0.2\n", "line 2"),
        ("knobs.yaml", "model: 2026-13-45\n", "line 1"),
        ("knobs.yaml", f"model: {'[' * 2000}{']' * 2000}\n", "nested too deeply"),
        ("knobs.yaml", "temprature: 1\n", "temprature"),
        ("knobs.yaml", "temperature: hot\n", "temperature is 'hot'"),
        ("knobs.yaml", "- 1\n", "knobs"),
        ("knobs.yaml", "", "knobs"),
        ("knobs.yaml", "1: 2\n", "knobs"),
        ("rubric.md", "", "empty rubric"),
        ("rubric.md", b"\xff\xfe", "is not a judge program"),
        ("examples.jsonl", "{}", "examples, line 1"),
        ("output_template.md", None, "output_template.md"),
        ("knobs.yaml", None, "knobs.yaml"),
    ],
)
def test_broken_folders_are_named(tmp_path: Path, file: str, content: str | bytes | None, message: str) -> None:
    program().save(tmp_path)
    path = tmp_path / file
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(JudgeError, match=message) as caught:
        JudgeProgram.load(tmp_path)
    assert str(tmp_path) in str(caught.value)


# --- suites


def test_the_seed_suite_has_the_seven_in_order() -> None:
    suite = seed_suite(Knobs(model="m"))
    assert list(suite.programs) == list(DIMENSIONS)
    assert {judge.knobs.model for judge in suite.programs.values()} == {"m"}
    assert suite.rule == DecisionRule()


def test_a_suite_goes_through_its_folder_in_the_order_of_the_dimensions(tmp_path: Path) -> None:
    rule = DecisionRule(Impact.MEDIUM, 40, 2, None)
    suite = JudgeSuite(dict(reversed([*seed_suite().programs.items()])), rule)
    suite.save(tmp_path)
    loaded = JudgeSuite.load(tmp_path)
    assert loaded == suite
    assert list(loaded.programs) == list(DIMENSIONS)
    assert loaded.hash == suite.hash
    assert {path.name for path in tmp_path.iterdir()} == {*DIMENSIONS, "decision_rule.yaml"}


def test_a_suite_without_a_rule_file_has_the_default_rule(tmp_path: Path) -> None:
    seed_suite().save(tmp_path)
    (tmp_path / "decision_rule.yaml").unlink()
    assert JudgeSuite.load(tmp_path) == seed_suite()


def test_the_hash_of_a_suite_sees_programs_and_rule_and_not_their_order() -> None:
    suite = seed_suite()
    assert suite.hash == JudgeSuite(dict(reversed([*suite.programs.items()]))).hash
    assert suite.hash != JudgeSuite(suite.programs, DecisionRule(min_confidence=1)).hash
    assert suite.hash != suite.with_program(program()).hash


def test_replacing_a_program_keeps_place_and_rule() -> None:
    suite = JudgeSuite(seed_suite().programs, DecisionRule(min_judges=2))
    changed = suite.with_program(program())
    assert list(changed.programs) == list(DIMENSIONS)
    assert changed.rule == suite.rule
    assert suite.programs["tool_calling"] == seed_program("tool_calling")


def test_bad_suites() -> None:
    with pytest.raises(JudgeError, match="at least one judge"):
        JudgeSuite({})
    with pytest.raises(JudgeError, match="'plan_quality' holds a program of 'tool_calling'"):
        JudgeSuite({"plan_quality": program()})


def test_a_folder_without_a_judge(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(JudgeError, match="holds no judge program"):
            JudgeSuite.load(folder)


def test_a_broken_judge_or_rule_is_not_passed_over(tmp_path: Path) -> None:
    seed_suite().save(tmp_path)
    (tmp_path / "plan_quality" / "program.yaml").unlink()
    with pytest.raises(JudgeError, match="plan_quality is not a judge program"):
        JudgeSuite.load(tmp_path)
    seed_suite().save(tmp_path)
    (tmp_path / "decision_rule.yaml").write_text("min_judges: 0\n", encoding="utf-8")
    with pytest.raises(JudgeError, match="min_judges is 0"):
        JudgeSuite.load(tmp_path)


def test_two_judges_of_one_dimension_are_refused(tmp_path: Path) -> None:
    JudgeSuite({"tool_calling": program()}).save(tmp_path)
    program().save(tmp_path / "copy")
    with pytest.raises(JudgeError, match="two judges of tool_calling"):
        JudgeSuite.load(tmp_path)


def test_a_suite_is_not_saved_over_other_judges(tmp_path: Path) -> None:
    """Loading would take them in."""
    seed_suite().save(tmp_path)
    with pytest.raises(JudgeError, match="holds other judges"):
        JudgeSuite({"tool_calling": program()}).save(tmp_path)
    seed_suite(Knobs(model="other")).save(tmp_path)
    assert JudgeSuite.load(tmp_path) == seed_suite(Knobs(model="other"))
