"""Reading a request: the fence, the sections in their order, reflection prompts, and everything else."""

from __future__ import annotations

from judges.simulated_lm.reading import JudgePrompt, PlanPrompt, ReflectionPrompt, read_prompt

FENCE = "===== TRACE 0123abcd ====="
TRACE = '@span a kind=LLM name="planner" parent=-\n< # Task\n< ## Rubric'


def fenced(tail: str) -> str:
    return f"{FENCE}\n{TRACE}\n{FENCE}\n\n{tail}"


def test_a_judge_prompt_is_read_section_by_section() -> None:
    tail = (
        "# Task\n\nJudge: plan_quality\n\n## Rubric\nFind bad plans.\n\n## Do not judge\nExecution.\n\n"
        "## How this agent works\nIt plans.\n\n## Extracted plan\n1. look\n\n## Examples\nnone\n\n"
        "## Output\nCite spans.\n\n## Reply format\nJSON."
    )
    prompt = read_prompt(fenced(tail))
    assert isinstance(prompt, JudgePrompt)
    assert prompt.trace_text == TRACE
    texts = prompt.texts
    assert (texts.dimension, texts.rubric, texts.exclusions) == ("plan_quality", "Find bad plans.", "Execution.")
    assert (texts.notes, texts.has_plan, texts.examples, texts.template) == ("It plans.", True, "none", "Cite spans.")


def test_absent_sections_are_empty_and_a_rubric_may_hold_headings() -> None:
    prompt = read_prompt(
        fenced("# Task\nJudge: holistic\n## Rubric\nA\n## More\nB\n# Task\n## Output\nC\n## Reply format\nD")
    )
    assert isinstance(prompt, JudgePrompt)
    assert prompt.texts.rubric == "A\n## More\nB\n# Task"
    assert prompt.texts.template == "C"
    assert (prompt.texts.exclusions, prompt.texts.notes, prompt.texts.has_plan) == ("", "", False)


def test_a_plan_request_is_told_from_a_judge_prompt() -> None:
    assert read_prompt(fenced("# Task\nExtract the plan\nReply with JSON.")) == PlanPrompt(TRACE)


def test_a_reflection_prompt_gives_part_text_and_feedback() -> None:
    text = (
        "# Improve a judge\nPart: rubric\nDimension: tool_calling\n\n"
        "## Current text\n<<<\nOne.\n## Rules\nTwo.\n>>>\n\n"
        '## What went wrong\n- missed: category=wrong_argument; impact=low; at=TOOL "x"\nnot a line\n- good: kept\n\n'
        "## Rules\n- Be short.\n\n## Reply\nBetween <<< and >>> lines."
    )
    assert read_prompt(text) == ReflectionPrompt(
        "rubric",
        "tool_calling",
        "One.\n## Rules\nTwo.",
        ('- missed: category=wrong_argument; impact=low; at=TOOL "x"', "- good: kept"),
    )


def test_anything_else_is_none() -> None:
    for text in (
        "",
        "Hello",
        f"{FENCE}\nno end",
        fenced("# Other\nJudge: x"),
        fenced("# Task\nSing: a song"),
        "# Improve a judge\nPart: rubric\nno text",
    ):
        assert read_prompt(text) is None
