"""What judges in a folder were tuned on before: none of it can be held out for them, or for what is tuned from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from labeled_traces.dataset import Dataset
from labeled_traces.split import LeakageError
from labeled_traces.stable_split import Place, held_before
from labeled_traces.trace import TraceError
from pipeline.config import PipelineError
from pipeline.run_folder import PLACES, SEED, SPLIT, RunFolder

_BEFORE = "before"


def noted(places: Iterable[Place], before: Iterable[Place]) -> dict[str, Any]:
    """What `PLACES` holds: the places of a run, and those of the runs that its judges came from."""
    return {"places": [astuple(place) for place in places], _BEFORE: [astuple(place) for place in before]}


def tuned_on(judges: Path | None) -> tuple[Place, ...]:
    """The development traces of all runs that these judges went through, as far as the run or the exported folder that
    they lie in says; None: the generic ones.

    Raises:
        PipelineError: what it says is damaged.
    """
    homes = () if judges is None else (judges, *judges.absolute().parents[:2])
    home = next((folder for folder in homes if (folder / PLACES).is_file()), None)
    if judges is None or home is None:
        return ()
    try:
        found = RunFolder(home).read_sealed(PLACES) or {}
        places, before = ([Place(*row) for row in found.get(part, ())] for part in ("places", _BEFORE))
    except (PipelineError, TraceError, TypeError):
        raise PipelineError(
            f"{home / PLACES} is damaged, so nobody knows what these judges were tuned on: accepted is the file as it "
            "was written"
        ) from None
    own = () if judges.name == SEED else (place for place in places if place.part != "testset")
    return (*own, *before)


def check_tuned_on(judges: Path | None, before: Sequence[Place], testset: Dataset, say: Callable[[str], None]) -> None:
    """
    Raises:
        LeakageError: a trace of the testset is among those `before`. Other runs of their tasks get a warning.
    """
    same, tasks = held_before(testset, before)
    remedy = (
        f"the split of the run that tuned them (its {SPLIT} as split.manifest, or --split), the generic judges, or "
        "`gpa-judges recalibrate`, which keeps each task in its part"
    )
    if same:
        raise LeakageError(
            f"{judges}: these judges were tuned on {len(same)} of the traces that are held out here, first "
            f"{same[0].trace_id!r}: accepted are {remedy}"
        )
    if tasks:
        say(
            f"warning: {judges}: these judges were tuned on other runs of the tasks of {len(tasks)} held-out traces, "
            f"first {tasks[0].trace_id!r}, so what these say is less than new tasks would; better are {remedy}"
        )
