"""What a ledger holds already, and what a replay of it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from judges.ledger.ledger_lm import NotInLedger
from judges.ledger.place import Place
from judges.ledger.postgres import NoLedger
from judges.ledger.store import Ledger
from judges.program import JudgeSuite
from labeled_traces.dataset import LabeledTrace
from pipeline.config import PipelineError
from pipeline.dry_run import dry_run
from pipeline.evaluate import EvaluateSettings


def open_kept(place: Place) -> AbstractContextManager[Ledger | None]:
    """The ledger to look into; None where nothing has been kept yet.

    Raises:
        JudgeError: what is there cannot be used.
    """
    if isinstance(place, Path) and not place.is_file():
        return nullcontext()
    try:
        return Ledger(place, read_only=True)
    except NoLedger:
        return nullcontext()


@contextmanager
def explained_replay(
    suite: JudgeSuite, rows: Iterable[LabeledTrace], ledger: Ledger, settings: EvaluateSettings
) -> Iterator[None]:
    """
    Raises:
        PipelineError: a call is not in the ledger that is replayed; says how many are not.
    """
    try:
        yield
    except NotInLedger as error:
        calls = dry_run(suite.programs.values(), rows, settings.repeats, ledger.find, settings.seed)
        missing = sum(call.reply is None for call in calls)
        raise PipelineError(
            f"{max(1, missing):,} of {len(calls):,} calls are not in the ledger {ledger.path}, which alone answers: "
            "accepted is what was evaluated with it before (data, judges, model, repeats and seed), or the same "
            f"command without --replay, which makes them ({error})"
        ) from error
