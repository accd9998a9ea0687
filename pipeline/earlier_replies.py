"""How long replies of a model were in evaluations whose results lie side by side: known before its next first call."""

from __future__ import annotations

from collections import defaultdict
from itertools import islice
from pathlib import Path

from judges.judgment import HOLISTIC
from judges.models.completion import count
from judges.prompt import PLAN_DIMENSIONS
from labeled_traces.files import parse_json

_EVALUATIONS = 20
"""The newest ones are looked at."""
_JUDGMENTS = 700
"""Of each, from its beginning."""


def earlier_replies(folder: Path) -> dict[str, dict[str, float]]:
    """Model -> dimension -> mean tokens of its replies in its newest evaluation in `folder`; "" is any judge but the
    holistic one. Judgments that a plan was extracted for are left out: they count its tokens as well."""
    found: dict[str, dict[str, float]] = {}
    paths = sorted(folder.glob("*/metrics.json"), key=_time, reverse=True)
    for path in paths[:_EVALUATIONS]:
        # Only an estimate hangs on it: what cannot be read is not there.
        try:
            model = parse_json(path.read_text(encoding="utf-8"), str(path))["model"]
            if model not in found and (means := _means(path.with_name("judgments.jsonl"))):
                found[model] = means
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


def _time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # removed since, or out of reach
        return 0.0


def _means(path: Path) -> dict[str, float]:
    lengths: dict[str, list[int]] = defaultdict(list)
    with path.open(encoding="utf-8") as file:
        for line in islice(file, _JUDGMENTS):
            row = parse_json(line, str(path))
            tokens = count(row["completion_tokens"])
            if row["outcome"] == "scored" and tokens and row["dimension"] not in PLAN_DIMENSIONS:
                lengths[row["dimension"]].append(tokens)
                if row["dimension"] != HOLISTIC:
                    lengths[""].append(tokens)
    return {kind: sum(found) / len(found) for kind, found in lengths.items()}
