"""The way of all that tunes to the models: nothing that the testset says gets out, or into a text that is tuned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from judges.ledger.budget import Usage
from judges.lm import LM, LMReply, LMRequest
from labeled_traces.sealed import Seal
from labeled_traces.trace import text_hash

RUN = 16
"""So many equal words in a row are a copy here, and not 8: feedback and plans speak of other traces of the same agent.
Of 6,600 texts that three demos sent, in a world of few templates, 43 had 8 words of a test trace, one 11, none 12."""
_FENCE = "===== TRACE "
_HEADING = "\n## "


@dataclass(frozen=True)
class SealedLM:
    """Another LM behind a check of every request: of what a judge is told beside the trace that it reads (its rows come
    from the development split, which is checked as such), and of all that is sent to a reflection model, as its prompt
    is made from texts, notes, feedback and memory of any origin."""

    inner: LM
    seal: Seal
    _passed: set[str] = field(default_factory=set)

    async def complete(self, request: LMRequest) -> LMReply:
        """As the other.

        Raises:
            LeakageError: the request says what only a held-out trace says; it was not sent.
        """
        for text in _told(request):
            if (whole := text_hash(text)) not in self._passed:
                for part in text.split(_HEADING):  # rubric, notes, examples ...: each is in many requests
                    self.seal.check({f"what is sent to {request.model}": part}, RUN)
                self._passed.add(whole)
        return await self.inner.complete(request)

    def spent(self) -> Usage:
        """What the other has spent, as far as it counts."""
        spent = getattr(self.inner, "spent", Usage)
        return spent() if callable(spent) else Usage()


def _told(request: LMRequest) -> Iterator[str]:
    """The texts of a request. Of one to a judge without the trace: it is fenced, or the whole message of the user."""
    for message in request.messages:
        text = message.content
        if request.schema is not None and message.role == "user":
            fence = text.partition("\n")[0]
            text = text[text.index(fence, len(fence)) :] if fence.startswith(_FENCE) else ""
        yield text
