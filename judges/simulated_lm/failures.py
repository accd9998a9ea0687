"""What a language model knows of how agents fail, kind by kind: words that speak of it, a rubric line, ways to say it.

The kinds are those of `labeled_traces.simulated.checks`. The same cues tell whether a prompt describes a kind and
which kind a label's category means, so nothing here depends on the simulated world's own labels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Failure:
    """One kind of failure.

    `cues` are regular expressions, one for each aspect of the kind that a text can speak of. `names` matches the
    words that label sets use for it. `bullet` is a rubric line that speaks of every aspect. `wordings` say that the
    failure was seen; `{facts}` stands for the values that were quoted from the trace.
    """

    cues: tuple[str, ...]
    names: str
    bullet: str
    wordings: tuple[str, ...]


FAILURES: dict[str, Failure] = {
    "bad_plan": Failure(
        cues=(
            r"(miss|omit|leav|lack|cover|absent)\w*[^.\n]{0,60}(sub-?task|part|input)|incomplete plan",
            r"(input|value|operand|result)s?\b[^.\n]{0,70}\b(earlier|previous|prior|before|produced|obtained)",
            r"step by step against the (task|request)|plan (that )?cannot (succeed|work|answer)|go through the plan",
        ),
        names=r"bad plan|plan(ning)? (error|quality|flaw)|problem identification|orchestration|decomposition",
        bullet="- A plan that cannot succeed: go through the plan step by step against the task. Report a sub-task "
        "that no step covers, and a step whose input value is not produced by any earlier step.",
        wordings=(
            "The plan itself cannot lead to the answer: {facts}.",
            "Planning fault: what the task needs is not covered, since {facts}.",
            "Following this plan leaves something out: {facts}.",
        ),
    ),
    "wrong_tool": Failure(
        cues=(
            r"(exact|precise|authoritative|primary|reliable|structured|curated)[^.\n]{0,50}(source|tool|figure|value)",
            r"\bweb\b|search engine|general(-purpose)? (search|tool)|free-text search",
            r"(better|best|more|less|ill|un)[- ]?(suit|fit|suitable|direct|reliable)\w*|alternative|compare the tools",
        ),
        names=r"wrong tool|tool (selection|choice)|unsuitable tool",
        bullet="- A tool that is less suited than another one on offer: compare the tools for every fetch. An exact "
        "figure belongs to the authoritative, structured source, not to a general search of the web.",
        wordings=(
            "A less suitable tool was chosen here: {facts}.",
            "Another tool on offer would have given the exact figure; instead {facts}.",
            "Tool choice does not fit what the step needs: {facts}.",
        ),
    ),
    "wrong_argument": Failure(
        cues=(
            r"schema|\b(types?|required|missing|invalid|valid)\b[^.\n]{0,50}(argument|field|parameter|input|name)",
            r"argument[^.\n]{0,90}(year|entity|period|unit|count|date)|(year|entity|period)[^.\n]{0,60}ask",
            r"(match|fit|agree|correspond)\w*[^.\n]{0,40}(sub-?task|step|task|plan|request|asked)",
        ),
        names=r"wrong arg|argument|parameter|invalid (call|invocation)|tool call(ing)?|schema",
        bullet="- A wrong argument: compare the arguments of every call with the schema (required fields, types) and "
        "with the step: the year, the entity, the count and the unit must match what was asked.",
        wordings=(
            "The call's arguments are not those that the step asks for: {facts}.",
            "Arguments do not match the sub-task: {facts}.",
            "This invocation passes something wrong: {facts}.",
        ),
    ),
    "skipped_step": Failure(
        cues=(
            r"skip|omit|left out|leav\w+ out|(not|never) (carried out|executed|performed|done|called)",
            r"from memory|recall|already know|own knowledge|remember",
            r"even (if|when|though)[^.\n]{0,50}(right|correct|fine)|(without|no) (a )?(tool|source|look-?up|call)",
        ),
        names=r"skip|instruction non|non-?complian|unverified|hallucinat|fabricat|goal deviation|memory",
        bullet="- A planned step that was skipped: the value is given from memory (`I already know this`), with no "
        "tool output behind it. Report it even when the value happens to be right.",
        wordings=(
            "A planned fetch did not happen; the value comes from the model's own knowledge: {facts}.",
            "No tool output stands behind this value, the step was answered from memory: {facts}.",
            "The executor claims to know the value instead of carrying out the step: {facts}.",
        ),
    ),
    "misread_output": Failure(
        cues=(
            r"mis(read|interpret|report|quot|stat|represent)|interpret\w*[^.\n]{0,40}(output|result|respons|return)",
            r"(record|not|copi|carri|stat|us)ed[^.\n]{0,50}(differ|other than|unlike|changed)|digit|transcri",
            r"(compare|check|trace)[^.\n]{0,60}(value|number|figure)[^.\n]{0,60}(return|output|result)",
        ),
        names=r"mis-?read|mis-?interpret|output interpretation|information retrieval|tool output",
        bullet="- A misread tool output: compare each value that is recorded with the figure the tool returned, digit "
        "by digit. A number recorded other than returned is an error, also where it is small.",
        wordings=(
            "The figure noted is not the one that came back: {facts}.",
            "Recorded value and tool result differ: {facts}.",
            "The result was taken over wrongly: {facts}.",
        ),
    ),
    "repeated_call": Failure(
        cues=(
            r"repeat|duplicat|redundan|the same (call|tool|step|work)|twice",
            r"(same|identical) argument|already (have|has|had|obtained|available|returned|given|known)",
            r"retr(y|ies)|never used|unused|(nothing|no) new( information)?",
        ),
        names=r"repeat|redundan|duplicate|loop|resource abuse|inefficien",
        bullet="- A repeated call: the same tool with identical arguments again, though the result was already "
        "returned and the call brings no new information.",
        wordings=(
            "The same request is made again although its result was at hand: {facts}.",
            "Wasted work, this call brings nothing new: {facts}.",
            "A duplicate of an earlier invocation: {facts}.",
        ),
    ),
    "off_target_answer": Failure(
        cues=(
            r"answer\w*[^.\n]{0,70}(question|asked|request|task|goal)|(question|request|task)[^.\n]{0,50}answer",
            r"another (question|entity|year|quantity)|off[- ]target|(entity|quantity|year|unit)[^.\n]{0,50}asked",
            r"beside the (question|request)|side by side|(intermediate|partial) (value|result|answer)|half of",
        ),
        names=r"off.?target|goal (deviation|fulfil)|final answer|wrong answer|incomplete answer",
        bullet="- A final answer that is off target: put it beside the question. It must give the quantity, the entity "
        "and the year that were asked; an intermediate value that was found on the way is no answer.",
        wordings=(
            "The final answer speaks of something other than the question: {facts}.",
            "What was asked is not what is answered: {facts}.",
            "The reply to the user misses the request: {facts}.",
        ),
    ),
    "missing_end_plan": Failure(
        cues=(
            r"end[- _]?(of[- ])?(the )?plan|closing (tag|marker)|end (tag|marker)|terminat\w+ (tag|marker)",
            r"format|\btags?\b|marker|layout",
            r"(system|developer) (message|prompt|instruction)|(required|stated|explicit) (form|rule|instruction)",
        ),
        names=r"missing end|end.?plan|format|instruction|language.only",
        bullet="- A broken format rule: read the system message for the required form, such as an end marker that must "
        "close the plan, and report a plan without its closing tag.",
        wordings=(
            "A format rule of the system message is broken: {facts}.",
            "The plan lacks its closing marker: {facts}.",
            "The required end of the plan is absent: {facts}.",
        ),
    ),
}
"""Kind -> what is known of it."""


def described(kind: str, text: str) -> float:
    """How much of a kind of failure a text speaks of: the share of its aspects, 0 to 1."""
    cues = FAILURES[kind].cues
    return sum(bool(re.search(cue, text, re.IGNORECASE)) for cue in cues) / len(cues)


def kinds_of(category: str) -> tuple[str, ...]:
    """The kinds of failure that a label's category may mean, by its words: `Tool Selection Errors` -> wrong_tool."""
    words = re.sub(r"[\W_]+", " ", category)
    return tuple(kind for kind, failure in FAILURES.items() if re.search(failure.names, words, re.IGNORECASE))
