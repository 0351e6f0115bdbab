"""The real service of a worker, except that some policies do by their names what no expression should be able to."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from gangctl.cel.meter import StepMeter
from gangctl.evaluation.worker import Service as RealService
from gangctl.policy.evaluate import Evaluation
from gangctl.policy.loaded import LoadedException, LoadedPolicy
from gangctl.policy.verdict import Outcome
from tests.evaluation.scripted import work_for


class HostileEvaluation(Evaluation):
    def evaluate(
        self,
        policy: LoadedPolicy,
        meter: StepMeter,
        exceptions: Sequence[LoadedException] = (),
    ) -> Outcome:
        match policy.name:
            case "hang":
                while True:
                    pass
            case "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "bomb":
                bytearray(1 << 34)
            case "slow":
                work_for(0.5)
        return super().evaluate(policy, meter, exceptions)


class Service(RealService):
    """Answers as the real one, with the evaluation above."""

    evaluation = HostileEvaluation
