"""What the names in tables and report mean, for a reader who knows none of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.results import Result


@dataclass(frozen=True)
class Meaning:
    """`counted`: what the number n of a metric counts."""

    counted: str
    text: str


METRICS: Mapping[str, Meaning] = {
    "coverage": Meaning("labels", "share of the people's error labels that a finding identifies"),
    "localization": Meaning("labels", "share of the labels that a finding identifies at the labelled span"),
    "precision": Meaning("findings", "share of findings that match a label; a lower bound, since people miss errors"),
    "false_alarms": Meaning("clean traces", "share of traces without an error that get a finding: lower is better"),
    "alpha": Meaning(
        "pairs of trace and judge", "Krippendorff's alpha of “reported an error” over repeats: 1 always the same"
    ),
    "agreement": Meaning("scores", "share of 0-3 scores that equal the people's"),
    "f1": Meaning("labels", "harmonic mean of localization and of the share of findings that hit a label at its span"),
    "froc_area": Meaning("labels", "localization, averaged over 0 to 1 false alarms per clean trace"),
    "raw_agreement": Meaning("pairs of trace and judge", "share of pairs of repeats that say the same of “an error”"),
    "scored_share": Meaning("judgments", "share of judgments that can be used; the rest is missing, not wrong"),
}
CONTROLS = (
    "Judges that know nothing, through the same code: “flag all” reports every span, “silent” none, “guess” at the "
    "rate of the labels. A metric that one of them wins says little."
)
ONE_NUMBER = "coverage and localization are one number here: by the matcher `span`, who cites a label's span finds it"


def judges(result: Result) -> str:
    """Who is compared."""
    before = "as shipped" if result.generic else "that the search began with"
    holistic = "; holistic: one prompt for all dimensions at once" if "holistic" in result.sides else ""
    return f"{result.before}: the judges {before}; tuned: what the search made of them on other traces{holistic}."


def by_span(result: Result) -> bool:
    """Whether coverage and localization are the same."""
    return result.provenance.get("matcher") == "span"
