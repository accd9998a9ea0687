from __future__ import annotations

import html
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from pipeline.metrics.estimate import Estimate
from pipeline.report import plots
from pipeline.report.page import report_html, write_report
from pipeline.report.table import MEASURED, metrics_shown
from pipeline.report.words import CONTROLS, METRICS
from pipeline.results import Result


class Page(HTMLParser):
    """Checks that elements are closed in order, and keeps links and counts."""

    VOID = frozenset({"meta", "br", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [str(value) for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag


def test_the_page_needs_nothing_else(result: Result) -> None:
    page = Page(report_html(result))
    assert page.open == []
    assert page.tags.count("svg") == 3
    assert "script" not in page.tags
    assert all(link.startswith("#") for link in page.links)
    assert "@import" not in report_html(result)


def test_what_it_says(result: Result) -> None:
    text = report_html(result)
    assert "<td>0.75<br><small class=dim>[0.70, 0.80]</small></td>" in text
    assert "PASS" in text
    assert "1,234" in text
    assert "plan quality" in text
    assert "<td>flag all</td><td>1.00*</td>" in text
    assert "0.50 \u2192 0.75<br><small class=dim>[0.45, 0.55] \u2192 [0.70, 0.80]</small>" in text
    for name in ("generic judges", "tuned judges", "holistic judge", "flag all"):
        assert name in text


def test_what_did_not_hold_stands_first(result: Result) -> None:
    held = {"failed": ("coverage fell",), "open": ("few tasks",), "held": ("f1 rose",)}
    text = report_html(replace(result, verdict="FAIL", reasons=("coverage fell",), conditions=held))
    assert "FAIL</span> <b>f1 0.50 -&gt; 0.75, +0.25 [+0.10, +0.40], 60 traces; conditions: 1 failed, 1 open" in text
    assert re.findall("<td><span class=(failed|open|held)>", text) == ["failed", "open", "held"]


def test_it_explains_itself(result: Result) -> None:
    text = html.unescape(report_html(result))
    for metric in metrics_shown(result):
        assert METRICS[metric].text in text, metric
    assert "generic: the judges as shipped; tuned: what the search made of them" in text
    assert "lower is better" in text
    assert CONTROLS in text
    assert set(MEASURED) <= set(METRICS)
    own = report_html(replace(result, generic=False))
    assert "champion: the judges that the search began with" in own
    assert "generic" not in own  # in plots too


def test_plots_of_shares_have_one_axis(result: Result) -> None:
    """From 0 to 1 in every report, so that two of them can be compared; a lower one where an alpha is below 0."""
    for low, ticks in ((0.5, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]), (-0.3, ["-0.2", "0.0"])):
        seed = replace(result.sides["seed"], metrics={"alpha": Estimate(low, low - 0.05, low + 0.05, 9)})
        found = plots.intervals(replace(result, sides={"seed": seed}))
        shown = [text.replace("\u2212", "-") for text in re.findall(r"<text[^>]*>([^<]+)</text>", found)]
        assert [text for text in shown if re.fullmatch(r"-?\d\.\d", text)][: len(ticks)] == ticks


def test_texts_are_escaped(result: Result) -> None:
    text = report_html(result)
    assert "a &lt;b&gt; run &amp; more" in text
    assert "<much>" not in text


def test_a_simulated_model_has_its_banner(result: Result) -> None:
    assert "Simulated model." in report_html(result)
    assert "Simulated model." not in report_html(replace(result, simulated=False))


def test_a_difference_is_coloured_by_its_direction(result: Result) -> None:
    up, down = Estimate(0.2, 0.1, 0.3, 9), Estimate(-0.2, -0.3, -0.1, 9)
    unsure = Estimate(0.2, -0.1, 0.3, 9)
    text = report_html(replace(result, differences={"coverage": up, "false_alarms": up, "precision": unsure}))
    assert len(re.findall("class=better", text)) == 1
    assert len(re.findall("class=worse", text)) == 1
    text = report_html(replace(result, differences={"coverage": down, "false_alarms": down}))
    assert len(re.findall("class=better", text)) == 1


def test_equal_results_give_equal_pages(result: Result) -> None:
    assert report_html(result) == report_html(result)


def test_undefined_numbers_and_missing_sides(result: Result) -> None:
    empty = {name: Estimate(None, reason="no labels") for name in result.sides["seed"].metrics}
    sides = {name: replace(result.sides[name], metrics=empty, curve=(), dimensions={}) for name in ("seed", "tuned")}
    text = report_html(replace(result, sides=sides, controls=(), differences=empty, labels_needed=7, test_uses=3))
    assert Page(text).open == []
    assert "undefined" in text
    assert "undefined: coverage of the tuned judges: no labels" in text
    assert "nan" not in text.lower().replace("provenance", "")
    assert "use 3 of this testset" in text


def test_the_file_is_utf8_whatever_the_texts_hold(result: Result, tmp_path: Path) -> None:
    write_report(replace(result, conditions={"held": ("a \ud83d b \x00 c",)}), tmp_path / "report.html")
    assert "a � b � c" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_it_says_what_each_step_added(result: Result) -> None:
    text = report_html(result)
    section = text.partition("What each step of the search added")[2].partition("<h2>")[0]
    rows = [re.sub(r"<[^>]+>", " ", row).split() for row in section.split("<tr>")[2:]]
    gepa, evolution = (" ".join(row) for row in rows)
    assert gepa.startswith("gepa plan quality, tool calling 0.50 \u2192 0.70 +0.20 [+0.15, +0.25]")
    assert gepa.endswith("12,445 22")
    assert evolution.startswith("evolution plan quality , tool calling")
    assert "<s>plan quality</s>" in section  # changed and not kept
    assert "std" not in section
    assert "only the testset says how large the gain is" in section
    assert "What each step" not in report_html(replace(result, steps=result.steps[:1]))


def test_nothing_was_read(result: Result) -> None:
    text = report_html(
        replace(result, sides={}, controls=(), beaten={}, differences={}, reasons=("nothing new",), conditions={})
    )
    assert "60 held-out traces with 70 error labels (3 more outside GPA: reported apart), not read" in text
    assert "nothing new" in text
    assert "What each step of the search added" in text
    assert "Before and after" not in text
