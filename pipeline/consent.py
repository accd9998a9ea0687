"""Asks before much is spent."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from judges.ledger.budget import Budget
from pipeline.config import ASK_ABOVE, PipelineError


@dataclass(frozen=True)
class Consent:
    """Expected dollars above `above` are asked about where no cap in dollars was given; None: never. `given`: yes.
    `capped`: who asks takes such a cap."""

    above: float | None = ASK_ABOVE
    given: bool = False
    capped: bool = True

    def ask(self, dollars: float, budget: Budget) -> None:
        """`dollars` are expected; a model without a known price, often one's own, adds nothing to them.

        Raises:
            PipelineError: the answer was no, or there is nobody to ask. Nothing was spent.
        """
        if self.given or self.above is None or budget.dollars is not None or dollars <= self.above:
            return
        said = f"about {dollars:.2f} dollars are expected, more than {self.above:g} (ask_above)"
        # Asked on stderr, since stdout may belong to a document; either stream may be closed.
        if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr)):
            cap = "--max-dollars X (in a file budget.dollars) as a cap, " if self.capped else ""
            raise PipelineError(
                f"{said}, and there is no terminal to ask at, so nothing was spent: accepted are --yes (it agrees), "
                f"{cap}or a higher --ask-above X"
            )
        print(f"{said}. Go on? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            cap = "; --max-dollars X would set a cap" if self.capped else ""
            raise PipelineError(f"not started, as you said: nothing was spent{cap}")
