from __future__ import annotations

import base64
import codecs
import html
import json
import textwrap
from urllib.parse import quote, quote_plus

import pytest

from labeled_traces.copied_text import words_of
from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.disguises import readings, without_marks
from labeled_traces.sealed import Seal
from labeled_traces.split import LeakageError
from labeled_traces.trace import Span, SpanKind, Trace

SAID = "The refund of 12,450 crowns for Émile was booked twice, on the gift card and on the account that was closed"
_CODED = base64.b64encode(SAID.encode()).decode()


def numbered(text: str, width: int, mark: str) -> str:
    return "\n".join(f"{mark.format(n)}{line}" for n, line in enumerate(textwrap.wrap(text, width), 9))


DISGUISES: dict[str, str] = {
    "base64": _CODED,
    "base64 in lines": base64.encodebytes(SAID.encode() * 3).decode(),
    "base64 for addresses": base64.urlsafe_b64encode(f"???{SAID}".encode()).decode(),
    "base64 in JSON in lines": json.dumps({"data": base64.encodebytes(SAID.encode() * 3).decode()}),
    "base64 twice": base64.b64encode(_CODED.encode()).decode(),
    "hexadecimal": SAID.encode().hex(),
    "percent codes": quote(SAID),
    "a form": quote_plus(SAID),
    "codes of bytes": "".join(f"\\x{ord(char):02x}" for char in SAID),
    "entities": "".join(f"&#{ord(char)};" for char in SAID),
    "accents": SAID.replace("a", "á").replace("o", "o\u0308"),
    "no accents, other numbers": SAID.replace("É", "E").replace(",450", "450"),
    "unseen": "\U000e0020\u3164".join(SAID),
    "numbered lines": numbered(SAID, 30, "{}. "),
    "numbered lines of a file": numbered(SAID, 30, "{:6d}\t"),
    "numbered lines in JSON": json.dumps({"excerpt": numbered(SAID, 30, "{} | ")}),
    "named lines": numbered(SAID, 30, "line {}: "),
    "quoted": numbered(SAID, 30, "> > "),
    "a numbered word a line": "\n".join(f"{number}) {word}" for number, word in enumerate(SAID.split())),
    "a word a tag": "".join(f'<td class="x">{html.escape(word)}</td>' for word in SAID.split()),
    "cut at a width": "\n".join(SAID[at : at + 25] for at in range(0, len(SAID), 25)),
    "hyphens": "\n".join(f"{SAID[at : at + 24]}-" for at in range(0, len(SAID), 24)),
}


def seal(text: str, *known: str) -> Seal:
    def row(trace_id: str, text: str) -> LabeledTrace:
        return LabeledTrace(Trace(trace_id, (Span("a", None, "agent", SpanKind.AGENT, inputs=text),)))

    return Seal.of(Dataset([row("t1", text)]), [row(f"d{number}", said) for number, said in enumerate(known)])


@pytest.mark.parametrize("how", DISGUISES)
def test_a_copy_is_known_however_it_stands_there(how: str) -> None:
    text = f"This agent pays back.\n{DISGUISES[how]}\nIt then ends."
    with pytest.raises(LeakageError, match=r"^notes holds 8 words in a row of .* 't1': .*take it out"):
        seal(SAID).check({"notes": text})
    seal(SAID, SAID).check({"notes": text})
    seal("Something else that happened when the agent was asked for the refund").check({"notes": text})


@pytest.mark.parametrize(
    "page",
    [
        "".join(f"<b>{word}</b>" for word in SAID.split()),
        numbered(SAID, 25, "{:6d}\t"),
    ],
    ids=["a page", "lines of a file"],
)
def test_what_a_trace_holds_with_marks_is_known_without_them(page: str) -> None:
    with pytest.raises(LeakageError, match="notes holds 8 words"):
        seal(page).check({"notes": SAID})
    seal(page, SAID).check({"notes": SAID})
    seal(page, page).check({"notes": SAID})


def test_an_ordinary_text_is_read_once_or_with_its_lines_put_together() -> None:
    assert list(readings("See get_customer_order_details_by_their_id in src/agents/support/tools/orders.py")) == [
        "See get_customer_order_details_by_their_id in src/agents/support/tools/orders.py"
    ]
    assert list(readings("one\ntwo")) == ["one\ntwo", "onetwo"]
    digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    assert list(readings(digest)) == [digest]
    assert without_marks("- 1. a < b\n  2) c > 1,000, 10,20") == "a < b\nc > 1000, 10,20"


@pytest.mark.parametrize("hostile", ["\\" * 9_000, "1,000" * 9_000, "<a " * 30_000, "\n> 1. " * 20_000, "A" * 90_000])
def test_no_text_takes_long(hostile: str) -> None:
    assert sum(len(words_of(reading)) for reading in readings(hostile)) >= 0


@pytest.mark.parametrize(
    "labels",
    [
        "trace,step,category\n{},s3,tool_calling\nother,s1,plan_quality",
        "| {} | high |",
        "In {} the plan was not kept.",
        '{{"id": "{}"}}',
    ],
)
@pytest.mark.parametrize("trace_id", ["tau-airline-17", "0f8c2e51-77aa-4d02-9c39-0a7f2f3b6c11", "TR_000000017"])
def test_labels_by_the_id_of_a_trace_are_caught(trace_id: str, labels: str) -> None:
    testset = Dataset(
        [LabeledTrace(Trace(i, (Span("a", None, "x", SpanKind.AGENT),))) for i in (trace_id, "17", "run")]
    )
    for name in (trace_id, trace_id.upper()):
        with pytest.raises(LeakageError, match=f"notes names the held-out trace '{trace_id}'"):
            Seal.of(testset).check({"notes": labels.format(name)})
    Seal.of(testset).check({"notes": labels.format(f"{trace_id}8") + " A run of 17 steps."})
    with pytest.raises(LeakageError, match="notes holds an example of the held-out trace '17'"):
        Seal.of(testset).check({"notes": '{"traceId": 17}'})


def test_what_is_out_of_reach() -> None:
    """Said in README: prose about a trace; and ciphers, which nobody uses by mistake."""
    seal(SAID).check(
        {"notes": codecs.encode(SAID, "rot13"), "rubric": "Money came back two times, by card and account."}
    )
