"""The judges of one MLflow experiment: the champion, the challenger, and how one takes the place of the other.

A dimension has one prompt, `<prefix><dimension>`; every exported judge is a version of it, whose tags hold the whole
program. The alias `champion` points at the version in production, `challenger` at the one that wants its place. The
scorer of the same name is the champion, since MLflow runs the newest version of a scorer as soon as it is registered;
a challenger's scorer is called `<prefix><dimension>_challenger`.

Every method can be stopped anywhere and called again: the alias moves last, so what it points at is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from judges.program import JudgeSuite
from pipeline.export.exported import Exported, Provenance

CHAMPION, CHALLENGER = "champion", "challenger"
PREFIX = "gpa_"


class Registry:
    """Champions and challengers of one experiment.

    Judges of another experiment under the same prefix are refused, since prompts belong to the whole server: give each
    experiment a prefix of its own.
    """

    def __init__(self, uri: str, experiment: str, prefix: str = PREFIX, *, create: bool = False) -> None:
        """Connects. `create`: make the experiment if there is none.

        Raises:
            PipelineError: no MLflow there, no such experiment, or a prefix that MLflow does not take.
        """
        raise NotImplementedError

    @property
    def experiment_id(self) -> str:
        raise NotImplementedError

    def champions(self) -> dict[str, Exported]:
        """Dimension -> the judge in production, in the order of the dimensions; empty where there is none yet.

        Raises:
            PipelineError: MLflow refuses, or a version holds no judge that can be read.
        """
        raise NotImplementedError

    def challengers(self) -> dict[str, Exported]:
        """Dimension -> the judge that wants the champion's place. Raises as `champions`."""
        raise NotImplementedError

    def versions(self, dimension: str) -> list[Exported]:
        """Everything that was exported for a dimension, newest first. Raises as `champions`."""
        raise NotImplementedError

    def register(self, suite: JudgeSuite, provenance: Provenance) -> dict[str, Exported]:
        """Makes the suite's judges the challengers: a prompt version and a scorer version each.

        A judge that is there already (same program, same rule) gets no new version; its provenance is brought up to
        date. A champion stays where it is, and is not made a challenger of itself. Programs are exported in the layout
        `mlflow`, whatever theirs is.

        Raises:
            PipelineError: a judge that MLflow cannot hold (too long, a model that it cannot name); nothing is written.
        """
        raise NotImplementedError

    def promote(self, judges: Mapping[str, Exported] | Iterable[Exported]) -> dict[str, Exported]:
        """Makes these registered judges the champions of their dimensions; the others stay. Returns them as they are
        now (with the live scorer's version). The champion of now is kept for `rollback`; promoting it changes nothing.

        Raises:
            PipelineError: MLflow refuses.
        """
        raise NotImplementedError

    def rollback(self, dimensions: Iterable[str] | None = None) -> dict[str, Exported]:
        """The champions before the present ones are champions again (of these dimensions; None: of all that have one
        before). Each call goes one step further back. Returns those that changed.

        Raises:
            PipelineError: a dimension named here has no earlier champion.
        """
        raise NotImplementedError
