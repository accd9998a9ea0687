"""An Optuna study whose next point follows from its seed and its finished points alone, so that it can be continued.

Sources: Bergstra et al., Algorithms for Hyper-Parameter Optimization, NeurIPS 2011 (TPE); Watanabe and Hutter,
c-TPE, IJCAI 2023, arXiv 2211.14411 (constraints); Optuna 5, `TPESampler`, `Trial.set_constraint`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from labeled_traces.trace import text_hash
from pipeline.config import PipelineError

_BANK = "bank"
_RECORD = "record"
_STARTUP = 8
"""Points that are drawn at random before TPE has seen enough."""


@dataclass(frozen=True)
class Tried:
    """A finished point. `record` is what the search keeps of it, plain JSON values."""

    number: int
    point: Mapping[str, int]
    record: Mapping[str, Any]


class Study:
    """Maximises. It works in memory; what is finished is copied to the storage, where there is one. A point that a kill
    cut off is therefore not in the storage, and the continued study comes to the same point again."""

    def __init__(self, seed: int, stored: Any = None) -> None:
        self._optuna = _quiet_optuna()
        self._seed = seed
        self._stored = stored
        self._study = self._optuna.create_study(direction="maximize")
        if stored is not None:
            self._study.add_trials(stored.trials)

    @property
    def tried(self) -> list[Tried]:
        return [Tried(trial.number, trial.params, trial.user_attrs[_RECORD]) for trial in self._study.trials]

    def ask(self, sizes: Mapping[str, int], starts: Sequence[Mapping[str, int]]) -> Any:
        """The next point as an Optuna trial (`number`, `params`): the first of `starts` that was not tried yet, else
        TPE's proposal. `sizes`: parameter -> how many values it has."""
        number = len(self._study.trials)
        sampler = self._optuna.samplers.TPESampler
        self._study.sampler = sampler(seed=int(text_hash(f"{self._seed} {number}")[:7], 16), n_startup_trials=_STARTUP)
        known = [trial.params for trial in self._study.trials]
        start = next((start for start in starts if start not in known), None)
        if start is not None:
            self._study.enqueue_trial(dict(start))
        whole = self._optuna.distributions.IntDistribution
        return self._study.ask({name: whole(0, size - 1) for name, size in sizes.items()})

    def tell(
        self, asked: Any, value: float | None, record: Mapping[str, Any], limits: Mapping[str, float] | None = None
    ) -> None:
        """Finishes a point. Without a value it counts as worse than any with one. `limits`: constraint -> excess, which
        is 0 or less where it is kept."""
        state = self._optuna.trial.TrialState
        asked.set_user_attr(_RECORD, dict(record))
        for name, excess in (limits or {}).items():
            asked.set_constraint(name, excess)
        if value is None:
            self._study.tell(asked, state=state.PRUNED)
        else:
            self._study.tell(asked, value)
        if self._stored is not None:
            self._stored.add_trial(self._study.trials[-1])

    def in_order(self, variants: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """The variants in the order in which the storage knows them, new ones last: a number keeps its meaning.

        Raises:
            PipelineError: a text that the storage knows is not among them.
        """
        by_hash = {part: {text_hash(text)[:16]: text for text in texts} for part, texts in variants.items()}
        known = {} if self._stored is None else self._stored.user_attrs.get(_BANK, {})
        for part, hashes in known.items():
            lost = [name for name in hashes if name not in by_hash[part]]
            if lost:
                raise PipelineError(
                    f"the stored study was made with {len(lost)} variants of {part} that the bank lacks now: accepted "
                    "is a storage that was filled by the same search steps, or a new one"
                )
        order = {part: list(dict.fromkeys([*known.get(part, ()), *found])) for part, found in by_hash.items()}
        if self._stored is not None and order != known:
            self._stored.set_user_attr(_BANK, order)
        return {part: [by_hash[part][name] for name in names] for part, names in order.items()}


@contextmanager
def open_study(name: str, seed: int, storage: str | None) -> Iterator[Study]:
    """A new study, or the one of this name in the storage: the URL of a database (environment variables in it are
    filled in).

    Raises:
        PipelineError: the storage refuses.
    """
    if storage is None:
        yield Study(seed)
        return
    from optuna.exceptions import OptunaError
    from sqlalchemy.exc import SQLAlchemyError

    backend = _connect(storage)
    try:
        yield Study(seed, _load(name, backend))
    except (OptunaError, SQLAlchemyError) as error:
        raise _refused(storage, error) from error
    finally:
        backend.remove_session()
        backend.engine.dispose()


def _connect(storage: str) -> Any:
    from optuna.exceptions import OptunaError
    from optuna.storages import RDBStorage
    from sqlalchemy.exc import SQLAlchemyError

    try:
        return RDBStorage(os.path.expandvars(storage))
    except (OptunaError, SQLAlchemyError, ImportError, ValueError) as error:
        raise _refused(storage, error) from error


def _quiet_optuna() -> Any:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)  # else it reports every study on stderr
    return optuna


def _load(name: str, backend: Any) -> Any:
    return _quiet_optuna().create_study(study_name=name, storage=backend, direction="maximize", load_if_exists=True)


def _refused(storage: str, error: Exception) -> PipelineError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return PipelineError(f"optuna storage {storage}: {reason}; accepted is a database URL such as sqlite:///study.db")
