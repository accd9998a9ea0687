"""The champions over traces in a real MLflow store."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.decision import DecisionRule
from judges.judgment import HOLISTIC, Finding, Judgment, Outcome
from judges.ledger.budget import Budget
from judges.lm import BudgetExhausted, LMReply, LMRequest
from judges.program import JudgeSuite, Knobs, seed_suite
from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import Impact
from labeled_traces.simulated import FaultRates, rate, simulate
from pipeline.assessments import Voice
from pipeline.cli import main
from pipeline.config import PipelineError
from pipeline.export.exported import Exported, Provenance
from pipeline.export.registry import Registry
from pipeline.mlflow_traces import MlflowTraces, without_assessments
from pipeline.score import Scored, Scoring, score

if TYPE_CHECKING:
    from tests.mlflow_rows import MlflowRows

NUMBERS = count(1)
SECRET = "a word that only people said"


class Place:
    """An experiment with traces and champions."""

    def __init__(self, uri: str, folder: Path, rows: type[MlflowRows], suite: JudgeSuite) -> None:
        number = next(NUMBERS)
        self.uri = uri
        self.folder = folder
        self.rows = rows(uri, f"score-{number}", folder / "files")
        self.rows.prefix = f"s{number}_"
        self.promote(suite)

    def registry(self, prefix: str = "") -> Registry:
        return Registry(self.uri, self.rows.name, prefix or self.rows.prefix)

    def promote(self, suite: JudgeSuite, prefix: str = "") -> None:
        registry = self.registry(prefix)
        registry.promote(registry.register(suite, Provenance("test", simulated=True)).values())

    def champions(self) -> Mapping[str, Exported]:
        return self.registry().champions()

    def score(self, **values: Any) -> Scored:
        given = {"prefix": self.rows.prefix, "out": self.folder / "ledger", **values}
        return score(Scoring(self.uri, self.rows.name, **given), lambda _: None)


def some(n: int, seed: int) -> list[LabeledTrace]:
    """Runs whose labels all hold the secret."""
    return [
        replace(row, scores=(), errors=tuple(replace(error, description=SECRET) for error in row.errors))
        for row in rate(simulate(n, seed, FaultRates().scaled(2.5)), seed)
    ]


@pytest.fixture
def suite() -> JudgeSuite:
    return seed_suite(Knobs(layout="mlflow"), ("plan_quality", "tool_calling"))


@pytest.fixture
def place(mlflow_database: str, tmp_path: Path, mlflow_rows: type[MlflowRows], suite: JudgeSuite) -> Place:
    return Place(mlflow_database, tmp_path, mlflow_rows, suite)


def test_scores_and_findings_are_logged_once(place: Place) -> None:
    rows = place.rows.log(some(6, 1))
    done = place.score()
    assert (done.traces, done.new, done.scores, done.outcomes) == (6, 6, 12, {"scored": 12})
    assert done.findings > 0
    assert done.simulated
    champions = done.champions
    findings = 0
    for row in rows:
        said = place.rows.assessments(row)
        for name, judge in champions.items():
            (found,) = (one for one in said if one.name == f"{place.rows.prefix}{name}")
            assert found.value in {"0", "1", "2", "3"}
            assert found.span_id is None
            assert found.metadata["program_hash"] == judge.program.hash
            assert found.metadata["prompt"] == judge.uri
            assert found.metadata["scorer_version"] == str(judge.scorer_version)
            assert found.metadata["simulated"] == "true"
        for one in said:
            if one.name.endswith("_finding"):
                findings += 1
                assert one.span_id in row.trace.by_id
                assert one.value in {"low", "medium", "high"}
                assert one.metadata["span_ids"].split(",")[0] == one.span_id
    assert findings == done.findings
    again = place.score()
    assert (again.traces, again.new, again.scores) == (6, 0, 0)
    place.rows.log(some(2, 2))
    assert (place.score().new, place.score().new) == (2, 0)


def test_nothing_to_score_costs_nothing(place: Place) -> None:
    said: list[str] = []
    score(Scoring(place.uri, place.rows.name, prefix=place.rows.prefix, out=place.folder), said.append)
    assert said == ["0 traces, 0 with a score missing"]


def test_another_champion_scores_anew(place: Place, suite: JudgeSuite) -> None:
    (row,) = place.rows.log(some(1, 3))
    place.score()
    plans = suite.programs["plan_quality"]
    place.promote(suite.with_program(plans.with_parts({"rubric": plans.rubric + "\n- Look twice."}, "test")))
    done = place.score()
    assert (done.new, done.scores) == (1, 1)
    names = [one.name for one in place.rows.assessments(row) if not one.name.endswith("_finding")]
    assert sorted(name.removeprefix(place.rows.prefix) for name in names) == ["plan_quality"] * 2 + ["tool_calling"]


def test_what_people_said_reaches_no_judge(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from judges.simulated_lm import SimulatedLM

    sent: list[LMRequest] = []
    complete = SimulatedLM.complete

    async def noted(self: SimulatedLM, request: LMRequest) -> LMReply:
        sent.append(request)
        return await complete(self, request)

    monkeypatch.setattr(SimulatedLM, "complete", noted)
    place.rows.log(some(6, 4))
    store = MlflowTraces(place.uri, place.rows.name)
    records = list(store.records())
    assert SECRET in json.dumps(records)
    assert SECRET not in json.dumps([without_assessments(record) for record in records])
    place.score()
    assert len(sent) == 12
    assert all(SECRET not in message.content for request in sent for message in request.messages)
    assert all("ann" not in message.content.split() for request in sent for message in request.messages)


def test_a_stopped_attempt_leaves_nothing_twice(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = place.rows.log(some(6, 5))
    log = MlflowTraces.log
    left = [8]

    def dies(self: MlflowTraces, trace_id: str, assessment: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        log(self, trace_id, assessment)

    monkeypatch.setattr(MlflowTraces, "log", dies)
    with pytest.raises(KeyboardInterrupt):
        place.score()
    monkeypatch.setattr(MlflowTraces, "log", log)
    calls = place.score().usage.calls
    assert calls == 12
    said = [(row.trace_id, one.name, one.span_id, one.rationale) for row in rows for one in place.rows.assessments(row)]
    assert len(said) == len(set(said))
    assert place.score().new == 0


def test_a_used_up_budget_keeps_what_was_judged(place: Place) -> None:
    rows = place.rows.log(some(6, 6))
    with pytest.raises(BudgetExhausted):
        place.score(budget=Budget(calls=5))
    scored = [one for row in rows for one in place.rows.assessments(row) if not one.name.endswith("_finding")]
    assert len(scored) == 5
    done = place.score(budget=Budget(calls=12))
    assert done.usage.calls == 12
    assert place.score().new == 0


def test_a_rule_over_judges_has_all_judges_read(place: Place, suite: JudgeSuite) -> None:
    (row,) = place.rows.log(some(1, 7))
    place.promote(replace(suite, rule=DecisionRule(max_per_trace=1)))
    assert place.score().scores == 2
    assert sum(one.name.endswith("_finding") for one in place.rows.assessments(row)) <= 1


def said_in(place: Place, rows: list[LabeledTrace]) -> dict[str, set[tuple[str, str | None, str]]]:
    return {
        row.trace_id: {(one.name, one.span_id, str(one.value)) for one in place.rows.assessments(row)} for row in rows
    }


def test_judges_that_are_weighed_together_are_logged_together(place: Place, suite: JudgeSuite, tmp_path: Path) -> None:
    rows = place.rows.log(some(6, 13))
    place.promote(replace(suite, rule=DecisionRule(max_per_trace=1)))
    for calls in (3, 7, 9):
        with pytest.raises(BudgetExhausted):
            place.score(budget=Budget(calls=calls))
        for said in said_in(place, rows).values():
            assert sum(not name.endswith("_finding") for name, _, _ in said) in {0, 2}
    place.score()
    stopped = said_in(place, rows)
    for row in rows:
        for one in place.rows.assessments(row):
            place.rows.client.delete_assessment(row.trace_id, one.assessment_id)
    place.score(out=tmp_path / "unbroken")
    assert stopped == said_in(place, rows)
    assert any(name.endswith("_finding") for said in stopped.values() for name, _, _ in said)


def test_another_champion_weighs_the_others_anew(place: Place, suite: JudgeSuite) -> None:
    rows = place.rows.log(some(4, 14))
    suite = replace(suite, rule=DecisionRule(max_per_trace=1))
    place.promote(suite)
    place.score()
    tools = suite.programs["tool_calling"]
    place.promote(suite.with_program(tools.with_parts({"rubric": tools.rubric + "\n- Look twice."}, "test")))
    assert place.score().scores == 8
    programs = {judge.program.hash for judge in place.champions().values()}
    for row in rows:
        current = [one for one in place.rows.assessments(row) if one.metadata["program_hash"] in programs]
        scores = [one.name for one in current if not one.name.endswith("_finding")]
        assert len(scores) == len(set(scores)) == 2
        assert len(current) <= 3
    assert place.score().new == 0


def test_a_champion_that_comes_back_is_weighed_with_the_champions_of_now(place: Place, suite: JudgeSuite) -> None:
    rows = place.rows.log(some(4, 14))
    suite = replace(suite, rule=DecisionRule(max_per_trace=1))
    place.promote(suite)
    place.score()
    programs = {judge.program.hash for judge in place.champions().values()}

    def current() -> set[tuple[str, str, str | None, str]]:
        said = ((row.trace_id, one) for row in rows for one in place.rows.assessments(row))
        return {(i, one.name, one.span_id, one.value) for i, one in said if one.metadata["program_hash"] in programs}

    before = current()
    tools = suite.programs["tool_calling"]
    place.promote(suite.with_program(tools.with_parts({"rubric": "- Report nothing."}, "test")))
    place.score()
    # What is said now of the others hangs on the new one.
    place.registry().rollback([place.champions()["tool_calling"]])
    assert place.score().scores == 8
    assert current() == before
    assert place.score().new == 0


def test_the_same_judges_speak_under_each_prefix(place: Place, suite: JudgeSuite) -> None:
    (row,) = place.rows.log(some(1, 5), label=False)
    other = f"other{place.rows.prefix}"
    place.promote(suite, other)
    first, second = place.score(), place.score(prefix=other)
    assert (first.scores, first.findings) == (second.scores, second.findings)
    assert first.findings > 0
    names = [one.name for one in place.rows.assessments(row)]
    assert sum(name.startswith(other) for name in names) * 2 == len(names)
    assert (place.score().new, place.score(prefix=other).new) == (0, 0)


def correct(place: Place, row: LabeledTrace, judged: Any, value: str) -> None:
    """As the edit button of MLflow's UI does it."""
    from mlflow.entities import AssessmentSource, Feedback

    about = {"span_id": judged.span_id, "overrides": judged.assessment_id, "metadata": dict(judged.metadata)}
    said = Feedback(name=judged.name, value=value, source=AssessmentSource("HUMAN", "ann"), **about)
    place.rows.client.log_assessment(row.trace_id, said)


def corrections(place: Place, row: LabeledTrace) -> list[tuple[str, Any, bool]]:
    said = place.rows.assessments(row, "HUMAN")
    return [(one.name.removeprefix(place.rows.prefix), one.value, one.valid) for one in said]


def test_what_people_corrected_stays_when_judges_are_weighed_anew(place: Place, suite: JudgeSuite) -> None:
    (row,) = place.rows.log(some(1, 14), label=False)
    suite = replace(suite, rule=DecisionRule(max_per_trace=1))
    place.promote(suite)
    place.score()
    for one in place.rows.assessments(row):
        correct(place, row, one, "1")
    before = corrections(place, row)
    assert len(before) >= 2
    tools = suite.programs["tool_calling"]
    place.promote(suite.with_program(tools.with_parts({"rubric": tools.rubric + "\n- Look twice."}, "test")))
    assert place.score().scores == 2
    assert corrections(place, row) == before


def test_what_people_corrected_is_no_score_of_a_judge(place: Place) -> None:
    (row,) = place.rows.log(some(1, 5), label=False)
    place.score()
    said = [one for one in place.rows.assessments(row) if "plan_quality" in one.name]
    assert len(said) > 1
    for one in said:
        correct(place, row, one, "low" if one.name.endswith("_finding") else "1")
    before = corrections(place, row)
    (judged,) = (one for one in said if not one.name.endswith("_finding"))
    place.rows.client.delete_assessment(row.trace_id, judged.assessment_id)
    assert place.score().scores == 1
    assert corrections(place, row) == before
    assert place.score().new == 0


def test_one_process_at_a_time(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = place.rows.log(some(2, 15))
    log = MlflowTraces.log
    refused: list[str] = []

    def meanwhile(self: MlflowTraces, trace_id: str, assessment: Any) -> None:
        with pytest.raises(PipelineError, match="in use by process") as error:
            place.score()
        refused.append(str(error.value))
        log(self, trace_id, assessment)

    monkeypatch.setattr(MlflowTraces, "log", meanwhile)
    assert place.score().scores == 4
    assert refused
    for row in rows:
        assert sum(not one.name.endswith("_finding") for one in place.rows.assessments(row)) == 2


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), [float("nan")]])
def test_a_value_that_is_no_number_is_in_nobodys_way(place: Place, value: Any) -> None:
    from mlflow.entities import AssessmentSource, Feedback

    first, _ = place.rows.log(some(2, 16))
    place.rows.client.log_assessment(
        first.trace_id, Feedback(name="bleu", value=value, source=AssessmentSource("CODE", "other"))
    )
    records = MlflowTraces(place.uri, place.rows.name).records()
    said = [row for record in records for row in record["info"]["assessments"]]
    (bleu,) = (row for row in said if row["assessment_name"] == "bleu")
    assert str(bleu["feedback"]["value"]).strip("[]").lower() in {"nan", "-inf", "-infinity"}
    assert (place.score().scores, place.score().new) == (4, 0)


def test_a_filter_that_mlflow_does_not_take_is_told_as_it_tells_it(place: Place) -> None:
    with pytest.raises(PipelineError, match="Invalid clause") as refused:
        place.score(filter_string="bogus =")
    assert "accepted is the URI" not in str(refused.value)


def test_only_traces_that_are_asked_for(place: Place) -> None:
    place.rows.log(some(3, 8))
    assert place.score(newest=2).traces == 2
    assert place.score(filter_string="trace.status = 'ERROR'").traces == 0
    assert place.score().new == 1


@pytest.fixture
def assessments(place: Place) -> Callable[..., list[Any]]:
    voice = Voice(place.champions()["plan_quality"], "p_")

    def made(outcome: Outcome, **values: Any) -> list[Any]:
        judgment = Judgment("t", "plan_quality", voice.judge.program.hash, 0, outcome, **values)
        return list(voice.to_assessments(judgment))

    return made


def test_what_cannot_be_used_is_missing_data(assessments: Callable[..., list[Any]]) -> None:
    finding = Finding("plan_quality", ("a", "b"), "why", "quote", Impact.HIGH, 70)
    for outcome in (Outcome.REFUSED, Outcome.TRUNCATED, Outcome.UNPARSEABLE, Outcome.TOO_LONG):
        (only,) = assessments(outcome, findings=(finding,), detail="cut")
        assert (only.value, only.error.error_code, only.error.error_message) == (None, outcome.upper(), "cut")
    for outcome in (Outcome.TIMEOUT, Outcome.PROVIDER_ERROR, Outcome.NOT_RUN):
        assert assessments(outcome) == []
    (score,) = assessments(Outcome.NOT_APPLICABLE)
    assert (score.value, score.error) == ("not_applicable", None)
    found, score = assessments(Outcome.SCORED, score=0, findings=(finding,))
    assert (found.name, found.value, found.span_id) == ("p_plan_quality_finding", "high", "a")
    assert (found.metadata["span_ids"], found.metadata["confidence"], found.rationale) == ("a,b", "70", "why")
    assert (score.name, score.value) == ("p_plan_quality", "0")


def test_what_the_holistic_judge_finds_is_logged_once(place: Place) -> None:
    """Its findings bear the names of their own dimensions."""
    champion = place.champions()["plan_quality"]
    program = replace(champion.program, dimension=HOLISTIC)
    voice = Voice(replace(champion, dimension=HOLISTIC, program=program), "p_")
    finding = Finding("tool_calling", ("a",), "why", "quote", Impact.HIGH, 70)
    judgment = Judgment("t", HOLISTIC, program.hash, 0, Outcome.SCORED, score=0, findings=(finding,))
    said = [
        {**one.to_dictionary(), "assessment_id": str(number)}
        for number, one in enumerate(voice.to_assessments(judgment))
    ]
    assert [one["assessment_name"] for one in said] == ["p_tool_calling_finding", "p_holistic"]
    assert voice.left_overs(said) == ["0", "1"]
    assert voice.has_score(said)
    assert not replace(voice, prefix="other_p_").has_score(said)
    assert not replace(voice, prefix="").left_overs(said)


def test_through_the_command_line(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place.rows.log(some(2, 9))
    command = ["score", place.rows.name, "--tracking-uri", place.uri, "--name-prefix", place.rows.prefix, "--json"]
    assert main([*command, "--price", "1", "2", "--out", str(tmp_path / "l")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["traces"], document["new"], document["scores"]) == (2, 2, 4)
    assert main([*command, "--judges", "no such experiment"]) == 2


def test_without_champions_it_says_what_to_do(
    mlflow_database: str, tmp_path: Path, mlflow_rows: type[MlflowRows]
) -> None:
    rows = mlflow_rows(mlflow_database, "no-champions", tmp_path)
    with pytest.raises(PipelineError, match="gpa-judges export RUN --to mlflow"):
        score(Scoring(mlflow_database, rows.name, prefix="nobody_"), lambda _: None)
    with pytest.raises(PipelineError, match="has no experiment 'nothing'"):
        MlflowTraces(mlflow_database, "nothing")
