from __future__ import annotations

import pytest

from judges.program import Knobs
from pipeline.config import PipelineError
from pipeline.export.models import inference_params, mlflow_model


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("openai/gpt-5", "openai:/gpt-5"),
        ("openai/ft:gpt-4o:acme::a1", "openai:/ft:gpt-4o:acme::a1"),
        ("hosted_vllm/meta-llama/Llama-3.1-8B", "hosted_vllm:/meta-llama/Llama-3.1-8B"),
        ("anthropic/claude-sonnet-4-5", "anthropic:/claude-sonnet-4-5"),
        ("simulated/default", "simulated:/default"),
    ],
)
def test_names_of_models(model: str, name: str) -> None:
    assert mlflow_model(Knobs(model=model)) == name


def test_an_endpoint_of_mlflows_own_gateway() -> None:
    gateway = "http://127.0.0.1:5000/gateway/mlflow/v1"
    assert mlflow_model(Knobs(model="openai/my-endpoint", endpoint=gateway)) == "gateway:/my-endpoint"
    assert mlflow_model(Knobs(model="openai/my-endpoint", endpoint=gateway + "/")) == "gateway:/my-endpoint"
    assert mlflow_model(Knobs(model="openai/m", endpoint="http://127.0.0.1:8000/v1")) == "openai:/m"


@pytest.mark.parametrize("model", ["gpt-5", "meta-llama/Llama-3.1-8B", "openai/", "/gpt-5", "openai:/gpt-5"])
def test_models_without_a_provider_are_refused(model: str) -> None:
    with pytest.raises(PipelineError, match=r"no name for the model .*accepted is provider/model"):
        mlflow_model(Knobs(model=model))


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        ("openai/gpt-4o", {"temperature": 0.3, "max_tokens": 500}),
        ("openai/some-local-model", {"temperature": 0.3, "max_tokens": 500}),
        ("openai/gpt-5", {"max_completion_tokens": 500}),
        # MLflow itself translates the names for these.
        ("anthropic/claude-sonnet-4-5", {"temperature": 0.3, "max_tokens": 500}),
        ("gemini/gemini-2.5-pro", {"temperature": 0.3, "max_tokens": 500}),
        ("simulated/default", {"temperature": 0.3, "max_tokens": 500}),
    ],
)
def test_parameters_have_the_names_that_the_model_takes(model: str, sent: dict[str, float]) -> None:
    assert inference_params(Knobs(model=model, temperature=0.3, max_tokens=500)) == sent
