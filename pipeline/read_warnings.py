"""What was repaired, guessed or dropped when replies were read, summed by kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from judges.judgment import Judgment

LOUD = 0.05
"""A kind in a larger share of the judgments than this is a warning beside the results."""
_MOST = 5
_PARTICULAR = re.compile(r"""(?<!\w)(?:'[^']*(?:'|$)|"[^"]*(?:"|$))|-?\d+(?:\.\d+)?""")
"""What differs from reply to reply: quoted values and numbers."""


def warning_kinds(judgments: Sequence[Judgment]) -> dict[str, int]:
    """Kind -> how many judgments have such a warning, the most frequent first."""
    kinds = Counter(kind for judgment in judgments for kind in {_kind(warning) for warning in judgment.warnings})
    return dict(sorted(kinds.items(), key=lambda pair: (-pair[1], pair[0])))


def warnings_in_words(kinds: Mapping[str, int]) -> str:
    """The most frequent kinds in one line."""
    said = [f"{count} x {kind}" for kind, count in list(kinds.items())[:_MOST]]
    more = [f"{len(kinds) - _MOST} more kinds"] if len(kinds) > _MOST else []
    return "; ".join([*said, *more])


def loud(kinds: Mapping[str, int], judgments: int) -> dict[str, int]:
    """The kinds that are frequent enough to change what a result says."""
    return {kind: count for kind, count in kinds.items() if count > LOUD * judgments}


def _kind(warning: str) -> str:
    return _PARTICULAR.sub("…", warning).replace("finding …", "a finding")
