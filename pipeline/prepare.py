"""Stage 1 of a run: data, split, judges, and what the run may cost, all before the first call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from judges.judgment import HOLISTIC
from judges.ledger.budget import OWN, Budget, Price
from judges.ledger.ledger_lm import LedgerLM
from judges.ledger.place import check_folder, place_of
from judges.models.connect import Asked, Models, is_simulated, open_lm
from judges.models.limits import Limits
from judges.program import JudgeSuite, seed_suite
from labeled_traces.dataset import Dataset
from labeled_traces.label import DIMENSIONS
from labeled_traces.raters import load
from labeled_traces.sealed import Seal
from labeled_traces.simulated import FaultRates, rate, shuffle_labels, simulate
from labeled_traces.split import SplitManifest, make_split
from labeled_traces.stable_split import places_of
from pipeline.config import MODELS, ExperimentConfig, PipelineError, SearchConfig, SimulatedData
from pipeline.config_file import build_settings
from pipeline.cost import asked_by, check_models
from pipeline.gates import Gates
from pipeline.held_out import check_leak, seal_of
from pipeline.matching import Matcher, build_matcher
from pipeline.optimizers.base import Optimizer
from pipeline.run_folder import PLACES, SEED, SPLIT, RunFolder, open_judges
from pipeline.tuned_on import check_tuned_on, noted, tuned_on

DATA = "data.jsonl"
Say = Callable[[str], None]
"""Takes one line for people."""


@dataclass(frozen=True)
class Step:
    """One step of the search: its optimizer, and the model that writes its proposals."""

    optimizer: Optimizer
    reflection_model: str
    reflection_endpoint: str

    @property
    def reflects(self) -> bool:
        """Whether it asks that model at all."""
        return getattr(self.optimizer, "reflects", True)


@dataclass(frozen=True)
class Run:
    """What all stages of one run share. The testset is in `manifest` and `dataset`; a tuner is given `development`, and
    asks models through a `SealedLM`."""

    config: ExperimentConfig
    folder: RunFolder
    dataset: Dataset
    manifest: SplitManifest
    seal: Seal
    suite: JudgeSuite
    holistic: JudgeSuite | None
    matcher: Matcher
    steps: tuple[Step, ...]
    gates: Gates

    @cached_property
    def development_rows(self) -> Dataset:
        return self.dataset.subset([*self.manifest.trainset, *self.manifest.valset])

    @property
    def model(self) -> str:
        """The model of the judges; several are joined."""
        return ", ".join(sorted({program.knobs.model for program in self.suite.programs.values()}))

    @property
    def simulated(self) -> bool:
        return any(is_simulated(program.knobs.model) for program in self.suite.programs.values())

    def open_lm(self, ledger: Path | None = None) -> LedgerLM:
        """The way to the models, with the run's budget and prices. `ledger`: its file, None: the one in its folder."""
        budget = Budget(**self.config.budget.model_dump())
        prices = Price.parse(self.config.prices)
        limits = Limits(**self.config.limits.model_dump())
        # In a ledger of its own its name stays the same when the folder is moved; else the folder's name tells it from
        # the others'.
        shared = self.config.ledger if ledger is None else None
        place, name = (shared, self.folder.path.name) if shared else (ledger or self.folder.ledger, OWN)
        return open_lm(place, name, budget, prices, self.config.judges.timeout, limits=limits)


def prepare(config: ExperimentConfig, say: Say) -> Run:
    """Loads or simulates the data, splits it, loads the judges, and checks every setting.

    Raises:
        PipelineError, JudgeError, TraceError: something is not as it should be; nothing was spent.
        LeakageError: the split's parts have something in common, the judges were tuned on a trace
            of the testset, or a text of theirs was copied from it.
    """
    if config.data.path is not None and config.judges.programs is None and config.judges.model is None:
        raise PipelineError(f"judges.model is needed for data of your own: {MODELS}")
    settings = build_settings(config)
    suite, holistic = load_judges(config)
    dataset = load_data(config)
    manifest = _split(config, dataset)
    manifest.check(dataset)
    before = tuned_on(config.judges.programs)
    check_tuned_on(config.judges.programs, before, dataset.subset(manifest.testset), say)
    seal = seal_of(dataset, manifest)
    check_leak(seal, suite, holistic)
    if config.ledger is not None:
        check_folder(place_of(config.ledger))
    steps = _steps(config, settings[0], suite)
    check_models(asked_by_run(steps, suite), Budget(**config.budget.model_dump()), models_of(config))
    hashes = {"data": dataset.hash, "judges": suite.hash, HOLISTIC: holistic.hash if holistic else None}
    folder = RunFolder.of(config, hashes)
    if config.data.simulated is not None and not folder[DATA].is_file():
        dataset.save(folder[DATA])
    suite.save(folder.programs(SEED))
    if holistic is not None:
        holistic.save(folder.programs(HOLISTIC))
    run = _run(config, folder, dataset, (manifest, seal), (suite, holistic), settings, say)
    manifest.save(folder[SPLIT])
    folder.write_sealed(PLACES, noted(places_of(manifest, dataset), before))
    return run


def reopen(folder: RunFolder, config: ExperimentConfig, say: Say) -> Run:
    """A run that was prepared before, with the judges and the split of its folder. Raises as `prepare`.

    A new split of changed data could hold out what was tuned on: data that is not what was split is an error.
    """
    path = folder[DATA] if config.data.path is None else config.data.path
    suite = folder.suite(SEED)
    holistic = folder.suite(HOLISTIC) if config.judges.holistic else None
    dataset, manifest = load(path, config.data.raters), SplitManifest.load(folder[SPLIT])
    manifest.check(dataset, f"put the data back as it was ({path}), since a run is validated on its own split alone")
    seal = seal_of(dataset, manifest)
    check_leak(seal, suite, holistic)
    return _run(config, folder, dataset, (manifest, seal), (suite, holistic), build_settings(config), say)


def load_data(config: ExperimentConfig) -> Dataset:
    """The file's rows, or the simulated ones with their rater's labels."""
    if config.data.path is not None:
        return load(config.data.path, config.data.raters)
    return simulated_data(config.data.simulated or SimulatedData())


def simulated_data(settings: SimulatedData) -> Dataset:
    rows = simulate(settings.traces, settings.seed, FaultRates().scaled(settings.fault_scale))
    if settings.rater:
        rows = rate(rows, settings.seed)
    if settings.shuffle_labels:
        rows = shuffle_labels(rows, settings.seed)
    return Dataset(rows)


def load_judges(config: ExperimentConfig) -> tuple[JudgeSuite, JudgeSuite | None]:
    """The suite to be tuned, and the holistic judge where it is wanted."""
    judges = config.judges
    names = tuple(name for name in DIMENSIONS if name in judges.dimensions)
    if judges.programs is None:
        suite = seed_suite(dimensions=names)
    else:
        found = open_judges(judges.programs)
        missing = [name for name in names if name not in found.programs]
        if missing:
            raise PipelineError(f"{judges.programs} holds no judge of {', '.join(missing)} (judges.dimensions)")
        suite = replace(found, programs={name: found.programs[name] for name in names})
    holistic = seed_suite(dimensions=(HOLISTIC,)) if judges.holistic else None
    return with_knobs(suite, judges.knobs), holistic and with_knobs(holistic, judges.knobs)


def with_knobs(suite: JudgeSuite, knobs: Mapping[str, object]) -> JudgeSuite:
    """The suite with these knobs in all of its programs."""
    return replace(suite, programs={name: program.with_knobs(**knobs) for name, program in suite.programs.items()})


def asked_by_run(steps: Iterable[Step], suite: JudgeSuite) -> Asked:
    """The models that a run asks, and where."""
    return asked_by(suite) | {(step.reflection_model, step.reflection_endpoint) for step in steps if step.reflects}


def models_of(config: ExperimentConfig) -> Models:
    return Models(Price.parse(config.prices), config.judges.timeout)


def _steps(config: ExperimentConfig, optimizers: Sequence[Optimizer], suite: JudgeSuite) -> tuple[Step, ...]:
    return tuple(_step(*step, suite) for step in zip(config.search, optimizers, strict=True))


def _step(config: SearchConfig, optimizer: Optimizer, suite: JudgeSuite) -> Step:
    """The judges' own model and endpoint serve the reflection too, unless another model or endpoint is named."""
    knobs = next(iter(suite.programs.values())).knobs
    own = config.reflection_model is None and config.reflection_endpoint is None
    endpoint = knobs.endpoint if own else config.reflection_endpoint or ""
    return Step(optimizer, config.reflection_model or knobs.model, endpoint)


def _run(
    config: ExperimentConfig,
    folder: RunFolder,
    dataset: Dataset,
    split: tuple[SplitManifest, Seal],
    judges: tuple[JudgeSuite, JudgeSuite | None],
    settings: tuple[list[Optimizer], Gates],
    say: Say,
) -> Run:
    manifest, seal = split
    development = dataset.subset([*manifest.trainset, *manifest.valset])
    parts = ", ".join(f"{len(ids)} {name}" for name, ids in manifest.parts.items())
    say(f"data: {len(dataset)} labelled traces ({parts})")
    return Run(
        config=config,
        folder=folder,
        dataset=dataset,
        manifest=manifest,
        seal=seal,
        suite=judges[0],
        holistic=judges[1],
        matcher=build_matcher(config.matcher.kind, list(development), config.matcher.threshold),
        steps=_steps(config, settings[0], judges[0]),
        gates=settings[1],
    )


def _split(config: ExperimentConfig, dataset: Dataset) -> SplitManifest:
    if config.split.manifest is not None:
        return SplitManifest.load(config.split.manifest)
    seed = config.seed if config.split.seed is None else config.split.seed
    return make_split(dataset, seed, config.split.fractions)
