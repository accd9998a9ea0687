"""`dspy.MIPROv2` over the instructions and demos of a judge. Needs the dspy library.

Source: Opsahl-Ong et al., Optimizing Instructions and Demonstrations for Multi-Stage Language Model Programs, 2024,
arXiv 2406.11695
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import dspy
from dspy.teleprompt import MIPROv2

from judges.program import JudgeProgram
from pipeline.config import PipelineError
from pipeline.optimizers.dspy_bridge import AUGMENTED, JudgeModule, to_demo
from pipeline.optimizers.dspy_lm import unswallowed

_REPLACED = ("_bootstrap_fewshot_examples", "_propose_instructions", "_optimize_prompt_parameters")


class JudgeMIPRO(MIPROv2):  # type: ignore[misc]
    """MIPROv2 with our demo sets, our checks of its proposals, and our reading of its candidates.

    Its proposer and its search (Optuna's TPE over the pairs of an instruction and a demo set) run as they are. Replaced
    is what does not fit a judge: bootstrapped demos, which would hold whole traces, and `dspy.Evaluate`, which counts a
    failed call as a score of 0. Minibatches are off: a valset has tens of traces, and candidates that were read on
    different ones cannot be compared.
    """

    def __init__(
        self,
        lm: Any,
        read: Callable[[JudgeProgram], float],
        check: Callable[[Sequence[str]], list[str]],
        candidates: int,
        seed: int,
    ) -> None:
        """`read` scores a program, higher is better. `check` gets the instruction candidates, the input program's
        first, and returns those to search. `candidates`: how many instructions are proposed.

        Raises:
            PipelineError: this version of dspy is built in another way.
        """
        missing = [name for name in _REPLACED if not hasattr(MIPROv2, name)]
        if missing:
            raise PipelineError(f"dspy {dspy.__version__}: MIPROv2 has no {', '.join(missing)}: accepted is dspy 3.4")
        super().__init__(
            metric=None,
            prompt_model=lm,
            task_model=lm,
            auto=None,
            num_candidates=candidates,
            seed=seed,
            track_stats=False,
        )
        self._read = read
        self._check = check
        self._demo_sets: list[list[Any]] = []

    def search(
        self, program: JudgeProgram, part: str, examples: Sequence[str], shown: Sequence[str], trials: int, origin: str
    ) -> None:
        """Reads the input program, then as many candidates as `trials`. `part` holds the instructions; `examples` are
        the texts to choose from, the input program's first; `shown` are examples that the proposer reads, as lines.

        Raises:
            Stopped: what `read` or the engine of the language model raised.
        """
        self._demo_sets = [[_complete(line) for line in text.split("\n") if line.strip()] for text in examples]
        most = max(map(len, self._demo_sets))
        self.compile(
            JudgeModule(program, part=part, origin=origin),
            # dspy wants neither to be empty. Which traces are read is the business of `read`.
            trainset=[to_demo(line) for line in shown] or [dspy.Example()],
            valset=[dspy.Example()],
            num_trials=trials,
            minibatch=False,
            max_bootstrapped_demos=0,
            max_labeled_demos=most,
            data_aware_proposer=bool(shown),
            # It would read the source code of our module.
            program_aware_proposer=False,
        )

    def _bootstrap_fewshot_examples(self, *_: Any, **__: Any) -> dict[int, list[list[Any]]]:
        return {0: self._demo_sets}

    def _propose_instructions(
        self, program: Any, trainset: Any, demos: Any, *args: Any, num_instruct_candidates: int
    ) -> dict[int, list[str]]:
        # dspy proposes at most as many instructions as there are demo sets, unless there are none.
        known = demos if len(self._demo_sets) >= num_instruct_candidates else None
        proposed = super()._propose_instructions(
            program, trainset, known, *args, num_instruct_candidates=num_instruct_candidates
        )
        return {0: self._check(proposed[0])}

    def _optimize_prompt_parameters(self, program: Any, instructions: Any, demos: Any, _: Any, *args: Any) -> Any:
        if len(instructions[0]) * len(self._demo_sets) == 1:
            return program
        return super()._optimize_prompt_parameters(program, instructions, demos, self._score, *args)

    def _score(self, module: JudgeModule, **_: Any) -> Any:
        """Stands where dspy.Evaluate would."""
        return dspy.Prediction(score=unswallowed(lambda: self._read(module.program)))


def _complete(line: str) -> Any:
    demo = to_demo(line)
    demo[AUGMENTED] = True
    return demo
