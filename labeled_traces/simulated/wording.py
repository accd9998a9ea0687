"""What is said of each variant of a fault: first as the checks say it, then as three people would."""

from __future__ import annotations

from labeled_traces.trace import JSON

VOICES = 3
"""How many ways people have to describe an error: voices 1 to 3; voice 0 is the checks' own."""

_PHRASES: dict[str, tuple[str, ...]] = {
    "uncovered": (
        "The plan does not cover a required sub-task: step {step} fetches {got}, the task needs {need}.",
        "Plan step {step} asks for {got}, so the required sub-task ({need}) is missing from the plan.",
        "The planner got the sub-task wrong. The task needs {need} but the plan fetches {got} in step {step}.",
        "No step of the plan fetches {need}, which the task requires; step {step} plans {got} instead.",
    ),
    "undefined": (
        "The plan is incomplete: step {step} uses {name}, which no earlier step produces; {need} is never fetched.",
        "{name} is used in step {step} of the plan but no earlier step produces it ({need} was not planned).",
        "The planner forgot to fetch {need}: the input {name} of planned step {step} is undefined.",
        "Incomplete plan. Step {step} needs {name}, and no step before it produces {name}.",
    ),
    "redundant": (
        "The plan has a redundant step: step {step} fetches {got} although step {first} already does.",
        "Planned step {step} is redundant, {got} is already fetched by step {first} of the plan.",
        "The planner fetches {got} twice, in step {first} and again in the needless step {step}.",
        "Redundant plan: step {step} repeats what step {first} fetches ({got}).",
    ),
    "web_undated": (
        "The plan selects web_search in step {step} for {got}, an exact figure that the database holds; the page is "
        "undated and may be old.",
        "Wrong tool selected: step {step} should read {got} from the database, not by web_search; it is undated.",
        "web_search was chosen for {got} in step {step} where db_lookup fits better. What came back carries no date.",
        "For {got} the database is the suitable tool, the planner picked web_search (step {step}) and got an old page.",
    ),
    "web_rounded": (
        "The plan selects web_search in step {step} for {got}, an exact figure that the database holds; the page "
        "rounds it.",
        "Wrong tool selected: step {step} should read {got} from the database, not by web_search; it is only rounded.",
        "web_search was chosen for {got} in step {step} where db_lookup fits better. The page gives a rounded figure.",
        "For {got} the database is the suitable tool, the planner picked web_search (step {step}): only 'about'.",
    ),
    "web_harmless": (
        "The plan selects web_search in step {step} for {got}, an exact figure that the database holds.",
        "Wrong tool selected: step {step} should read {got} from the database, not by web_search, though no harm came.",
        "web_search was chosen for {got} in step {step} where db_lookup fits better.",
        "For {got} the database is the suitable tool, but the planner picked web_search in step {step}.",
    ),
    "wrong_figure": (
        "The arguments of the call in step {step} do not match the sub-task: {call} was called, {planned} was due.",
        "Wrong argument in step {step}: the executor called {call} where {planned} was due.",
        "The call in step {step} passes other arguments than its sub-task says, {call} and not {planned}.",
        "Step {step} should have called {planned}; the arguments of {call} are wrong.",
    ),
    "wrong_form": (
        "The arguments of the call in step {step} do not match the sub-task: the chart is drawn in another form than "
        "{planned}.",
        "Wrong argument in step {step}: the chart's kind is not the one that was due ({planned}).",
        "The make_chart call in step {step} passes another kind of chart than its sub-task says, {planned} was due.",
        "Step {step} draws the wrong kind of chart; the arguments should have been those of {planned}.",
    ),
    "rejected": (
        "The schema of {tool} rejected the call in step {step} for an invalid argument: {call}; it was then corrected.",
        "Invalid argument in step {step}: {call} violates the schema of {tool}, the executor had to correct the call.",
        "The first call in step {step} was rejected by the schema of {tool} ({call}); a corrected call followed.",
        "Step {step} calls {tool} with an argument that its schema does not accept: {call}.",
    ),
    "skipped_after_cutoff": (
        "Step {step} of the plan was skipped: {name} = {value} for {got} comes from memory, no tool output grounds "
        "it, and the year lies after the memory's cutoff.",
        "The executor did not call the tool planned in step {step} but claims to already know {got}. The memory ends "
        "before that year, so {value} is made up.",
        "Planned fetch skipped in step {step}: {value} was answered from memory, which cannot know {got}.",
        "{got} was never fetched although step {step} plans it; {name} = {value} is an ungrounded value from memory, "
        "past its cutoff.",
    ),
    "skipped_before_cutoff": (
        "Step {step} of the plan was skipped: {name} = {value} for {got} comes from memory, no tool output grounds it.",
        "The executor did not call the tool planned in step {step} but claims to already know {got} ({value}).",
        "Planned fetch skipped in step {step}: {value} for {got} was answered from memory.",
        "{got} was never fetched although step {step} plans it; {name} = {value} is an ungrounded value from memory.",
    ),
    "misread": (
        "The tool output was misread in step {step}: {tool} returned {returned}, but {value} was recorded in {name}.",
        "In step {step} the executor recorded {value} as {name} although {tool} returned {returned}.",
        "Misread output in step {step}: {returned} came back from {tool} and {value} was written down.",
        "The value recorded in step {step} ({value}) is not what {tool} returned ({returned}).",
    ),
    "rounded": (
        "The tool output was rounded in step {step}: {tool} returned {returned}, but {value} was recorded in {name}.",
        "In step {step} the executor recorded the rounded {value} as {name} although {tool} returned {returned}.",
        "Output recorded inexactly in step {step}: {returned} came back from {tool} and {value} was written down.",
        "The value recorded in step {step} ({value}) is a rounding of what {tool} returned ({returned}).",
    ),
    "loop": (
        "The same call of {tool} was made {times} times in step {step}; the repeated calls bring nothing new.",
        "{tool} is called {times} times with the same arguments in step {step}, a needless loop.",
        "The executor loops in step {step}: the identical {tool} call is repeated, {times} calls in all.",
        "Wasted work, step {step} repeats one {tool} call {times} times.",
    ),
    "repeat": (
        "The same call of {tool} was made {times} times in step {step}; the repeated call brings nothing new.",
        "{tool} is called {times} times with the same arguments in step {step}, which is needless.",
        "The executor repeats the identical {tool} call in step {step} without need.",
        "Wasted work, step {step} makes the same {tool} call again.",
    ),
    "no_answer": (
        "The final answer is off target: it gives no figure and leaves the question unanswered ({asked}).",
        "The question ({asked}) is not answered; the final answer says something else.",
        "The goal is missed, since the final answer holds no figure that answers the question: {asked}",
        "Final answer beside the point: {asked} remains unanswered.",
    ),
    "partial_answer": (
        "The final answer is off target: it reports an intermediate result and leaves open what was asked ({asked}).",
        "The question ({asked}) is only half answered; the final answer gives an intermediate result.",
        "The goal is not fully met, since the final answer states a by-product rather than what was asked: {asked}",
        "Final answer beside the point, an intermediate finding is given where the question was: {asked}",
    ),
    "no_end_plan": (
        "The plan does not end with the required <end_plan> marker.",
        "<end_plan> is missing: the planner was told to end the plan with it.",
        "The planner ignores the instruction to close the plan with <end_plan>.",
        "The plan lacks its end marker <end_plan>, which the instructions require.",
    ),
}


def quote(text: str) -> str:
    """What is quoted as evidence: the beginning of a long text."""
    return text[:160]


def describe(variant: str, voice: int, **values: JSON) -> str:
    """One sentence about a fault, with its values."""
    return _PHRASES[variant][voice].format(**values)
