"""Asks before much is spent."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass

from judges.ledger.budget import Budget
from pipeline.config import ASK_ABOVE, PipelineError


@dataclass(frozen=True)
class Consent:
    """Expected dollars above `above` are asked about where no cap in dollars was given, and models of unknown price
    where no cap at all was; `above` None: nothing is. `given`: yes. `capped`: who asks takes caps."""

    above: float | None = ASK_ABOVE
    given: bool = False
    capped: bool = True

    def ask(self, dollars: float, budget: Budget, blind: Collection[str] = ()) -> None:
        """`dollars` are expected, beside what the models `blind` cost: their price is unknown, and they are not on this
        machine.

        Raises:
            PipelineError: the answer was no, or there is nobody to ask. Nothing was spent.
        """
        if self.given or self.above is None:
            return
        if blind and budget == Budget():
            said = f"the price of {', '.join(sorted(blind))} is unknown, so nobody knows what this will cost"
            caps = "--max-calls N or --max-tokens N (budget) as a cap, " if self.capped else ""
            self._ask(said, f"--price IN OUT in dollars per million tokens (in a file prices), {caps}or --yes")
        elif dollars > self.above and budget.dollars is None:
            said = f"about {dollars:.2f} dollars are expected, more than {self.above:g} (ask_above)"
            cap = "--max-dollars X (in a file budget.dollars) as a cap, " if self.capped else ""
            self._ask(said, f"--yes (it agrees), {cap}or a higher --ask-above X")

    def _ask(self, said: str, accepted: str) -> None:
        # Asked on stderr, since stdout may belong to a document; either stream may be closed.
        if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr)):
            raise PipelineError(
                f"{said}, and there is no terminal to ask at, so nothing was spent: accepted are {accepted}"
            )
        print(f"{said}. Go on? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise PipelineError(f"not started, as you said: nothing was spent; accepted are {accepted}")
