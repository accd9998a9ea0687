"""What the registry needs of MLflow, without touching its process-wide settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.config import PipelineError
from pipeline.export.scorer import same_scorer
from pipeline.tracking import connect, find_experiment, refusals

_HISTORY = "gpa.champions"
_ABSENT = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "NOT_FOUND")
"""Codes with which MLflow says that there is no such prompt, version, alias or scorer."""


class Store:
    """Prompts and scorers of one experiment.

    Raises (every method): PipelineError, where MLflow refuses or cannot be reached.
    """

    def __init__(self, uri: str, experiment: str, *, create: bool) -> None:
        self.uri = uri
        with refusals(uri):
            from mlflow.genai.scorers.registry import MlflowTrackingStore

            self._client = connect(uri, create=create)
            self._scorers = MlflowTrackingStore(uri)
            found = self._client.get_experiment_by_name(experiment)
            if found is None and not create:
                raise PipelineError(
                    f"MLflow at {uri} has no experiment {experiment!r}: accepted is one that judges were exported to"
                )
            self.experiment_id = find_experiment(self._client, experiment)

    def experiment_name(self, experiment_id: str) -> str:
        with refusals(self.uri):
            return str(self._client.get_experiment(experiment_id).name)

    def versions(self, prompt: str) -> list[Any]:
        """All versions, newest first; none where there is no such prompt."""
        found: list[Any] = []
        token = None
        with refusals(self.uri):
            if self._client.get_prompt(prompt) is None:
                return found
            while True:
                page = self._client.search_prompt_versions(prompt, page_token=token)
                found += page
                token = page.token
                if not token:
                    break
        return sorted(found, key=lambda version: -int(version.version))

    def version(self, prompt: str, name: int | str) -> Any | None:
        """A version by number or alias, None where there is none."""
        from mlflow.exceptions import MlflowException

        with refusals(self.uri):
            try:
                return self._client.get_prompt_version(prompt, name)
            except MlflowException as error:
                if error.error_code in _ABSENT:
                    return None
                raise

    def create_version(self, prompt: str, template: str, message: str, tags: Mapping[str, str]) -> Any:
        """A new version, its tags included: whole or not at all."""
        from mlflow.prompt.constants import PROMPT_EXPERIMENT_IDS_TAG_KEY

        with refusals(self.uri):
            if self._client.get_prompt(prompt) is None:
                # So that the experiment's page shows the prompt.
                shown = {PROMPT_EXPERIMENT_IDS_TAG_KEY: f",{self.experiment_id},"}
                self._client.create_prompt(prompt, tags=shown)
            return self._client.create_prompt_version(prompt, template, message, dict(tags))

    def set_tags(self, prompt: str, version: int, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        """Sets those that differ."""
        with refusals(self.uri):
            for key, value in new.items():
                if old.get(key) != value:
                    self._client.set_prompt_version_tag(prompt, version, key, value)

    def set_alias(self, prompt: str, alias: str, version: int) -> None:
        with refusals(self.uri):
            self._client.set_prompt_alias(prompt, alias, version)

    def delete_alias(self, prompt: str, alias: str) -> None:
        with refusals(self.uri):
            self._client.delete_prompt_alias(prompt, alias)

    def history(self, prompt: str) -> list[int]:
        """The versions that have been champion, in order."""
        with refusals(self.uri):
            text = self._client.get_prompt(prompt).tags.get(_HISTORY, "")
        return [int(number) for number in text.split(",") if number]

    def set_history(self, prompt: str, versions: list[int]) -> None:
        with refusals(self.uri):
            self._client.set_prompt_tag(prompt, _HISTORY, ",".join(map(str, versions)))

    def ensure_scorer(self, scorer: Any) -> int:
        """The scorer's version, a new one only where the newest of its name is another judge."""
        from mlflow.exceptions import MlflowException

        with refusals(self.uri):
            try:
                newest = self._scorers.get_scorer(self.experiment_id, scorer.name)
                if same_scorer(newest, scorer):
                    return int(newest.scorer_version)
            except MlflowException as error:
                if error.error_code not in _ABSENT:
                    raise
            self._scorers.register_scorer(self.experiment_id, scorer)
            return int(scorer.scorer_version)

    def link_run(self, run_id: str, versions: list[Any]) -> None:
        """Has the run's page name the prompt versions."""
        from mlflow.tracing.utils.prompt import TraceTagKey, update_linked_prompts_tag

        with refusals(self.uri):
            run = self._client.get_run(run_id)
            linked = update_linked_prompts_tag(run.data.tags.get(TraceTagKey.LINKED_PROMPTS), versions)
            self._client.set_tag(run_id, TraceTagKey.LINKED_PROMPTS, linked)
