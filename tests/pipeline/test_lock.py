from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from judges.ledger.owner import this_process
from pipeline.config import PipelineError
from pipeline.lock import locked

HOLD = "import sys, time; from pathlib import Path; from pipeline.lock import locked\n"
HOLD += "with locked(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(600)"


def test_one_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path / "state"):
        assert (tmp_path / "state" / "lock.owner").read_text() == this_process()
        with pytest.raises(PipelineError, match=f"in use by process {this_process()}"), locked(tmp_path / "state"):
            pass
    with locked(tmp_path / "state"):
        pass


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(PipelineError, match=f":{process.pid}:"), locked(tmp_path):
            pass
        process.kill()
        assert process.wait() == -signal.SIGKILL
    with locked(tmp_path):
        pass
