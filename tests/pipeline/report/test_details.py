from __future__ import annotations

import html
import re
from pathlib import Path

from labeled_traces.dataset import Dataset
from labeled_traces.split import SplitManifest
from pipeline.config_file import parse_config
from pipeline.report.page import report_html
from pipeline.results import Result
from pipeline.run import optimize, validate_run


def test_a_run_shows_its_changes_and_a_validation_finding(tmp_path: Path) -> None:
    values = {
        "name": "small",
        "output": str(tmp_path),
        "data": {"simulated": {"traces": 80}},
        "judges": {"dimensions": ["tool_calling"], "holistic": False, "temperature": 0.5},
        "search": {"settings": {"max_iterations": 3}},
        "validation": {"repeats": 1},
        "tracking": {"enabled": False},
    }
    run, tuned, _ = optimize(parse_config(values, "f", tmp_path), lambda _: None)
    validate_run(run.folder.path, lambda _: None)
    page = (run.folder.path / "report.html").read_text(encoding="utf-8")
    before, after = run.suite.programs["tool_calling"], tuned.programs["tool_calling"]
    new = [line for line in after.rubric.splitlines() if line.strip() and line not in before.rubric]
    assert new  # or it shows nothing
    assert "<summary>tool calling: rubric</summary>" in page
    assert all(html.escape(line) in page for line in new)
    assert re.search(r"date</td><td><code>20\d\d-\d\d-\d\d \d\d:\d\d UTC", page)
    example = page.partition("A finding, as an example")[2]
    manifest = SplitManifest.load(run.folder.path / "split.json")
    shown = re.findall(r"trace ([^,<]+), span", example)
    assert len(shown) == 1
    assert shown[0] in manifest.valset
    assert_nothing_of(manifest.testset_of(run.dataset), page)


def assert_nothing_of(testset: Dataset, page: str) -> None:
    assert [row.trace_id for row in testset if row.trace_id in page] == []


def test_without_details(result: Result) -> None:
    assert "What was changed" not in report_html(result)
    assert "left is better" in report_html(result)
