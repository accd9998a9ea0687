"""Champions and challengers in MLflow; what is done over HTTP is in test_isolated.py and test_run_export.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from judges.decision import DecisionRule
from judges.mlflow_layout import instructions
from judges.program import JudgeSuite, Knobs, seed_suite
from labeled_traces.label import DIMENSIONS
from pipeline.config import PipelineError
from pipeline.export.exported import Exported, Provenance, suite_of
from pipeline.export.registry import Registry
from pipeline.export.store import Store

RUN = Provenance("a-run")
Open = Callable[[], Registry]
WRITES = ("ensure_scorer", "create_version", "set_tags", "set_history", "set_alias", "delete_alias")


def one(text: str = "Judge the calls.") -> JudgeSuite:
    suite = seed_suite(Knobs(model="openai/m"), ("tool_calling",))
    return suite.with_program(suite.programs["tool_calling"].with_parts({"rubric": text}, "test"))


def versions(registry: Registry) -> list[int]:
    return [judge.version for judge in registry.versions("tool_calling")]


def live(registry: Registry, name: str = "tool_calling") -> tuple[str, str, int]:
    """What MLflow runs under the champion's name: its newest scorer. Text, model and version."""
    from mlflow.genai.scorers.registry import MlflowTrackingStore

    scorer: Any = MlflowTrackingStore(registry.uri).get_scorer(registry.experiment_id, f"{registry.prefix}{name}")
    return scorer.instructions, scorer.model, scorer.scorer_version


def promoted(registry: Registry, text: str) -> Exported:
    return registry.promote(registry.register(one(text), RUN).values())["tool_calling"]


def test_seven_judges_and_back(open_registry: Open, nasty_suite: JudgeSuite) -> None:
    registry = open_registry()
    assert registry.champions() == registry.challengers() == {}
    done = registry.register(nasty_suite, Provenance("a-run", verdict="FAIL", extra={"labels": "400"}))
    assert list(done) == list(DIMENSIONS)
    back = open_registry().challengers()
    assert back == done
    for name, judge in back.items():
        program = nasty_suite.programs[name].with_knobs(layout="mlflow")
        assert (judge.program, judge.program.parent, judge.rule) == (
            program,
            nasty_suite.programs[name].hash,
            nasty_suite.rule,
        )
        assert (judge.version, judge.scorer_version) == (1, 1)
        assert judge.prompt == f"{registry.prefix}{name}"
        assert judge.scorer == f"{registry.prefix}{name}_challenger"
        assert judge.template == instructions(program)
        assert (judge.verdict, judge.simulated, judge.is_current) == ("FAIL", False, True)
        assert judge.tags["labels"] == "400"
        assert judge.tags["request_checked_with"].startswith("mlflow 3.")
    assert suite_of(back).programs == {name: judge.program for name, judge in done.items()}
    assert registry.champions() == {}


def test_the_same_judge_again_is_no_new_version(open_registry: Open) -> None:
    first = open_registry().register(one(), RUN)
    assert open_registry().register(one(), RUN) == first
    for other in (
        one("Other."),
        replace(one(), rule=DecisionRule(min_confidence=10)),
        JudgeSuite({"tool_calling": one().programs["tool_calling"].with_knobs(temperature=0.1)}),
    ):
        open_registry().register(other, RUN)
    assert versions(open_registry()) == [4, 3, 2, 1]
    again = open_registry().register(one(), RUN)["tool_calling"]
    # Only the scorer is registered anew, since MLflow runs the newest.
    assert (again.version, versions(open_registry())) == (1, [4, 3, 2, 1])
    assert open_registry().challengers()["tool_calling"].version == 1


def test_a_verdict_is_brought_up_to_date_and_never_taken_away(open_registry: Open) -> None:
    registry = open_registry()
    registry.register(one(), RUN)
    later = registry.register(one(), Provenance("later", verdict="PASS"))["tool_calling"]
    assert (later.version, later.verdict, later.tags["run"]) == (1, "PASS", "later")
    silent = registry.register(one(), Provenance("silent"))["tool_calling"]
    assert (silent.verdict, silent.tags["run"]) == ("PASS", "later")
    assert registry.register(one(), Provenance("last", verdict="FAIL"))["tool_calling"].verdict == "FAIL"


def test_promote(open_registry: Open) -> None:
    registry = open_registry()
    first = promoted(registry, "One.")
    assert (first.scorer, first.scorer_version) == (first.prompt, 1)
    assert live(registry) == (first.template, "openai:/m", 1)
    challenger = registry.register(one("Two."), RUN)
    assert live(registry) == (first.template, "openai:/m", 1), "a challenger must not go live"
    assert registry.champions() == {"tool_calling": first}
    second = registry.promote(challenger.values())["tool_calling"]
    assert registry.champions() == {"tool_calling": second}
    assert registry.challengers() == {}
    assert live(registry) == (second.template, "openai:/m", 2)
    assert registry.promote([second]) == {"tool_calling": second}
    assert live(registry)[2] == second.scorer_version == 2


def test_a_champion_is_no_challenger_of_itself(open_registry: Open) -> None:
    registry = open_registry()
    champion = promoted(registry, "One.")
    again = registry.register(one("One."), Provenance("again", verdict="PASS"))["tool_calling"]
    assert (again.version, again.scorer, again.verdict) == (champion.version, champion.prompt, "PASS")
    assert registry.challengers() == {}


def test_a_champion_keeps_what_it_was_promoted_with(open_registry: Open) -> None:
    """Now and after another took its place, whatever challenger shares the judge."""
    registry = open_registry()
    proved = registry.register(one("One."), Provenance("first", verdict="PASS", extra={"reference": "0.8"}))
    promoted = registry.promote(proved.values())["tool_calling"]
    for verdict in ("INCONCLUSIVE", "FAIL", ""):
        other = Provenance("other", "", verdict, simulated=True, extra={"reference": "0.1"})
        assert registry.register(one("One."), other)["tool_calling"] == promoted
    registry.promote(registry.register(one("Two."), RUN).values())
    again = registry.register(one("One."), Provenance("other", verdict="FAIL"))["tool_calling"]
    assert (again.version, again.tags["run"], again.verdict) == (1, "first", "PASS")
    assert registry.challengers()["tool_calling"].version == 1
    registry.rollback()
    rolled_back = registry.register(one("Two."), Provenance("other", verdict="FAIL"))["tool_calling"]
    assert (rolled_back.tags["run"], rolled_back.verdict) == ("a-run", "none")
    assert registry.register(one("Two."), Provenance("new", verdict="PASS"))["tool_calling"].tags["run"] == "new"


def test_rollback_goes_back_step_by_step(open_registry: Open) -> None:
    registry = open_registry()
    texts = {promoted(registry, text).version: text for text in ("One.", "Two.", "Three.")}
    for version in (2, 1):
        back = registry.rollback()["tool_calling"]
        assert back.program.rubric == texts[version]
        assert registry.champions() == {"tool_calling": back}
        assert live(registry) == (back.template, "openai:/m", back.scorer_version)
    assert registry.rollback() == {}
    with pytest.raises(PipelineError, match="tool_calling: there is no earlier champion"):
        registry.rollback(registry.champions().values())
    assert promoted(registry, "Four.").version == 4
    assert registry.rollback()["tool_calling"].version == 1


def test_a_rollback_of_named_champions_goes_one_step_however_often_it_is_called(open_registry: Open) -> None:
    registry = open_registry()
    for text in ("One.", "Two.", "Three."):
        champion = promoted(registry, text)
    assert registry.rollback([champion])["tool_calling"].version == 2
    assert registry.rollback([champion]) == {}
    assert registry.champions()["tool_calling"].version == 2


class Stopped(BaseException):
    """A kill, as far as our code can tell."""


@contextmanager
def stopped_before(write: int) -> Iterator[list[str]]:
    """Nothing is written from the `write`th time on. Yields the names of the writes that were tried."""
    tried: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in WRITES:
            original = getattr(Store, name)

            def guarded(self: Store, *args: Any, _name: str = name, _original: Any = original) -> Any:
                tried.append(_name)
                if len(tried) >= write:
                    raise Stopped
                return _original(self, *args)

            patch.setattr(Store, name, guarded)
        yield tried


@pytest.mark.parametrize("write", [1, 2, 3])
def test_a_stopped_registration_is_ended_by_the_same_call(open_registry: Open, write: int) -> None:
    promoted(open_registry(), "One.")
    with stopped_before(write) as tried, pytest.raises(Stopped):
        open_registry().register(one("Two."), RUN)
    assert len(tried) == write
    assert open_registry().champions()["tool_calling"].version == 1
    done = open_registry().register(one("Two."), RUN)
    assert (versions(open_registry()), done["tool_calling"].version) == ([2, 1], 2)
    assert open_registry().challengers() == done


@pytest.mark.parametrize("write", [1, 2, 3, 4, 5])
def test_a_stopped_promotion_is_ended_by_the_same_call(open_registry: Open, write: int) -> None:
    first = promoted(open_registry(), "One.")
    second = open_registry().register(one("Two."), RUN)["tool_calling"]
    with stopped_before(write) as tried, pytest.raises(Stopped):
        open_registry().promote([second])
    assert len(tried) == write
    assert open_registry().champions()["tool_calling"].version == (2 if "delete_alias" in tried else 1)
    done = open_registry().promote([second])["tool_calling"]
    assert open_registry().champions() == {"tool_calling": done}
    assert open_registry().challengers() == {}
    assert live(open_registry()) == (done.template, "openai:/m", 2)
    assert open_registry().rollback()["tool_calling"].version == first.version


@pytest.mark.parametrize("write", [1, 2, 3, 4])
def test_a_stopped_rollback_is_ended_by_the_same_call(open_registry: Open, write: int) -> None:
    for text in ("One.", "Two.", "Three."):
        champion = promoted(open_registry(), text)
    with stopped_before(write), pytest.raises(Stopped):
        open_registry().rollback([champion])
    open_registry().rollback([champion])
    back = open_registry().champions()["tool_calling"]
    assert back.version == 2
    assert live(open_registry()) == (back.template, "openai:/m", back.scorer_version)
    assert open_registry().rollback([back])["tool_calling"].version == 1


def test_a_promotion_that_was_given_up_leaves_no_trace_in_the_history(open_registry: Open) -> None:
    promoted(open_registry(), "One.")
    second = open_registry().register(one("Two."), RUN)["tool_calling"]
    with stopped_before(4), pytest.raises(Stopped):
        open_registry().promote([second])
    promoted(open_registry(), "Three.")
    assert open_registry().rollback()["tool_calling"].program.rubric == "One."


def test_judges_of_another_experiment_are_refused(open_registry: Open) -> None:
    registry = open_registry()
    promoted(registry, "One.")
    other = Registry(registry.uri, f"{registry.experiment}-other", registry.prefix, create=True)
    for call in (other.champions, lambda: other.versions("tool_calling"), lambda: other.register(one("Two."), RUN)):
        with pytest.raises(
            PipelineError,
            match=r"belongs to the judges of experiment .*--judges .*another --name-prefix for each experiment",
        ):
            call()
    assert versions(registry) == [1]


def test_prompts_that_are_no_judges_are_refused(open_registry: Open) -> None:
    from mlflow import MlflowClient

    registry = open_registry()
    client = MlflowClient(registry.uri, registry.uri)
    name = f"{registry.prefix}tool_calling"
    client.create_prompt(name)
    client.create_prompt_version(name, "Hello {{ name }}")
    with pytest.raises(PipelineError, match=f"version 1 of the prompt {name} is no exported judge"):
        registry.register(one(), RUN)


def test_what_mlflow_cannot_hold_is_refused_before_anything_is_written(
    open_registry: Open, small_suite: JudgeSuite
) -> None:
    registry = open_registry()
    last = small_suite.programs["tool_calling"]
    too_long = last.with_parts({"rubric": "x" * 100_000}, "test")
    # Not shown, so the prompt is short; but the tag with the whole program is not.
    row = '{"excerpt": "x", "findings": [], "score": 3}\n'
    too_large = last.with_parts({"examples": row * 3000}, "test")
    for program, message in (
        (too_long, "the judge's text has 1"),
        (too_large, r"its program has \d+ characters: accepted by MLflow are 100000"),
        (last.with_knobs(model="gpt-5"), "no name for the model gpt-5"),
    ):
        with pytest.raises(PipelineError, match=message):
            registry.register(small_suite.with_program(program), RUN)
    with pytest.raises(PipelineError, match="is no name of a prompt"):
        Registry(registry.uri, registry.experiment, "my judges/").register(small_suite, RUN)
    assert registry.versions("plan_quality") == []


def test_simulated_judges_say_so(open_registry: Open) -> None:
    registry = open_registry()
    suite = seed_suite(Knobs(), ("tool_calling",))
    judge = registry.promote(registry.register(suite, RUN).values())["tool_calling"]
    assert (judge.simulated, judge.tags["simulated"]) == (True, "true")
    assert judge.program.knobs.model == "simulated/default"
    assert live(registry)[1] == "simulated:/default"


def test_the_run_and_the_experiment_name_the_prompts(open_registry: Open) -> None:
    from mlflow import MlflowClient

    registry = open_registry()
    client = MlflowClient(registry.uri, registry.uri)
    run_id = client.create_run(registry.experiment_id).info.run_id
    for _ in range(2):
        judge = registry.register(one(), Provenance("a-run", run_id))["tool_calling"]
    assert judge.tags["run_id"] == run_id
    linked = client.get_run(run_id).data.tags["mlflow.linkedPrompts"]
    assert linked == f'[{{"name": "{judge.prompt}", "version": "1"}}]'
    assert client.get_prompt(judge.prompt).tags["_mlflow_experiment_ids"] == f",{registry.experiment_id},"


def test_an_experiment_that_is_not_there(mlflow_database: str) -> None:
    with pytest.raises(
        PipelineError, match="has no experiment 'nowhere': accepted is one that judges were exported to"
    ):
        Registry(mlflow_database, "nowhere")


def test_no_mlflow_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(PipelineError, match=r"MLflow at http://127\.0\.0\.1:9 refused"):
        Registry("http://127.0.0.1:9", "x")


def test_more_versions_than_a_page_holds(open_registry: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    registry = open_registry()
    for text in ("One.", "Two.", "Three.", "Four.", "Five."):
        registry.register(one(text), RUN)
    whole = MlflowClient.search_prompt_versions
    monkeypatch.setattr(
        MlflowClient,
        "search_prompt_versions",
        lambda self, name, page_token=None: whole(self, name, max_results=2, page_token=page_token),
    )
    assert versions(registry) == [5, 4, 3, 2, 1]
    assert registry.register(one("One."), RUN)["tool_calling"].version == 1
