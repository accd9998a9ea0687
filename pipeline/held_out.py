"""What may be done with a testset: no text that tunes or is tuned is copied from it, and each use of it is recorded
and counted.

A use is recorded in two files: beside the data, where all runs on this data see it, and in the folder of the run, which
may be moved; the records of all runs beside it count too, whatever data they were made on. What cannot be counted: a
use on a copy of the data elsewhere by runs elsewhere, and one whose lines were deleted in both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from judges.program import JudgeProgram, JudgeSuite
from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.held_out_use import (
    HeldOutUse,
    append_use,
    is_same,
    names_of,
    place_of,
    read_uses,
    sketches_of,
)
from labeled_traces.sealed import Leak, Seal
from labeled_traces.split import SplitManifest

TEST_USES = "test_uses.jsonl"


def seal_of(dataset: Dataset, manifest: SplitManifest) -> Seal:
    """What the testset says and the development split does not."""
    return Seal.of(dataset.subset(manifest.testset), dataset.subset([*manifest.trainset, *manifest.valset]))


def check_leak(seal: Seal, *suites: JudgeSuite | None) -> None:
    """
    Raises:
        LeakageError: a text of these judges was copied from a test trace.
    """
    seal.check(_texts(suites))


def leaks(seal: Seal, suite: JudgeSuite) -> Iterator[Leak]:
    """The test traces that a text of the judges was copied from, each with what was copied."""
    return seal.leaks(_texts([suite]))


def _texts(suites: Iterable[JudgeSuite | None]) -> dict[str, str]:
    programs = [program for suite in suites if suite is not None for program in suite.programs.values()]
    return {name: text for program in programs for name, text in texts_of(program).items()}


def texts_of(program: JudgeProgram) -> dict[str, str]:
    """Its parts as a leak names them."""
    return {f"{program.dimension} {part}": text for part, text in program.parts.items()}


def uses_beside(data: Path) -> Path:
    """The record of a data file: one for all files of its folder, since they may share traces."""
    return data.resolve().parent / TEST_USES


def uses_known(shared: Path, runs: Path) -> list[HeldOutUse]:
    """Those on record beside the data, and in the folders of the runs that lie in `runs`, so that another copy of the
    data is no new testset. Raises as `read_uses`."""
    own = [path for path in sorted(runs.glob(f"*/{TEST_USES}")) if os.access(path, os.R_OK)]
    return list({use.id: use for path in (shared, *own) for use in read_uses(path)}.values())


def record_use(
    use: HeldOutUse, rows: Sequence[LabeledTrace], shared: Path, own: Path, say: Callable[[str], None]
) -> int:
    """Which use of its held-out traces this is, from 1. `rows`: these traces, which are added to `use`. What `own` (the
    record of the run's folder) holds already, with the same proof from the same readings, is the same use again, to
    which nothing is added.

    Raises:
        TraceError: a record is damaged.
        OSError: the run's folder cannot be written.
    """
    mine, beside = read_uses(own), read_uses(shared)
    others = uses_known(shared, own.parent.parent)
    known = next((earlier for earlier in mine if is_same(use, earlier)), None)
    if known is None:
        use = replace(use, traces=names_of(rows, [*mine, *others]), sketches=sketches_of(rows))
        append_use(own, use)
    use = known or use
    if shared != own and all(one.id != use.id for one in beside):
        try:
            append_use(shared, use)
        except OSError as error:
            say(
                f"warning: {shared} cannot be written ({error.strerror}): this use of the testset is recorded in {own} "
                "alone, so other runs on this data will not count it"
            )
    place = place_of(use, [*mine, *others])
    if place > 1:
        say(f"warning: use {place} of this testset: what it says is worth less than the first time")
    return place
