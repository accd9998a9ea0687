"""How long replies of a model were in evaluations whose results lie side by side: known before its next first call."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import islice
from pathlib import Path

from judges.judgment import HOLISTIC
from judges.prompt import PLAN_DIMENSIONS

_EVALUATIONS = 20
"""The newest ones are looked at."""
_JUDGMENTS = 700
"""Of each, from its beginning."""


def earlier_replies(folder: Path) -> dict[str, dict[str, float]]:
    """Model -> dimension -> mean tokens of its replies in its newest evaluation in `folder`; "" is any judge but the
    holistic one. Judgments that a plan was extracted for are left out: they count its tokens as well."""
    found: dict[str, dict[str, float]] = {}
    paths = sorted(folder.glob("*/metrics.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in paths[:_EVALUATIONS]:
        # Only an estimate hangs on it: what cannot be read is not there.
        try:
            model = json.loads(path.read_text(encoding="utf-8"))["model"]
            if model not in found and (means := _means(path.with_name("judgments.jsonl"))):
                found[model] = means
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


def _means(path: Path) -> dict[str, float]:
    lengths: dict[str, list[int]] = defaultdict(list)
    with path.open(encoding="utf-8") as file:
        for line in islice(file, _JUDGMENTS):
            row = json.loads(line)
            if row["outcome"] == "scored" and row["completion_tokens"] and row["dimension"] not in PLAN_DIMENSIONS:
                lengths[row["dimension"]].append(row["completion_tokens"])
                if row["dimension"] != HOLISTIC:
                    lengths[""].append(row["completion_tokens"])
    return {kind: sum(found) / len(found) for kind, found in lengths.items()}
