"""The process of a job under `tpc run`: starts what `module:function` makes, and ends with a supervisor's code.

`python -m tpc.coordinator.operations.supervision.job_process module:function OPTIONS`, where OPTIONS are those of
`Pipeline.start`, or of `Service.run`, as JSON; "serve" has the fields of `Serve`. SIGTERM stops it after its current
epoch; before it runs it ends the process, and the next start recovers.
"""

from __future__ import annotations

import json
import signal
import sys
import traceback
from collections.abc import Mapping
from typing import Any

from tpc.coordinator.operations.serve import Serve
from tpc.coordinator.operations.supervision.exit_codes import EXIT_NOT_LOADED, exit_code_for
from tpc.errors import ConfigurationError, TpcError
from tpc.machine_limits import is_lack_of_threads, lack_of_threads
from tpc.support.terminal import print_line


def main(target: str, options: Mapping[str, Any]) -> int:
    """Run the job until it ends; the exit code."""
    from tpc.coordinator.operations.commands.targets import JobNotLoadedError, filled, load_job

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        serve = {"serve": Serve(**options["serve"])} if "serve" in options else {}
        job = load_job(target)
        job.run_to_end({**options, **serve})
    except JobNotLoadedError as error:
        print_line(f"{filled(error)}", err=True)
        return EXIT_NOT_LOADED
    except TpcError as error:
        print_line(f"{filled(error)}", err=True)
        return EXIT_NOT_LOADED if _lacks_package(error) else exit_code_for(error)
    except ImportError:
        traceback.print_exc()
        return EXIT_NOT_LOADED
    except RuntimeError as error:
        if not is_lack_of_threads(error):
            raise
        print_line(f"{lack_of_threads(error)}", err=True)
        return 1
    return 0


def _lacks_package(error: TpcError) -> bool:
    """Whether the program, or a sink, needs a package that is not there; what an event has met does not count."""
    return isinstance(error, ConfigurationError) and isinstance(error.__cause__, ImportError)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], json.loads(sys.argv[2])))
