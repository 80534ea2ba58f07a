"""One life of a program that knows nothing of faults: a process of its own, with the fault of its orders.

`python -m tpc.chaos.runner.program ORDERS module arguments...` is `python -m module arguments...`, except that every
step of the protocol, on the driver and on the executors, is recorded, and the fault is made where its time has come.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from tpc.chaos.runner.orders import read_orders


def main(arguments: Sequence[str]) -> None:
    """Obey the orders and become the program."""
    orders_file, module, *rest = arguments
    orders = read_orders(Path(orders_file))
    orders.obey()
    sys.argv = [module, *rest]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if ended.code in (None, 0):
            orders.note_end()
        raise
    orders.note_end()


if __name__ == "__main__":
    main(sys.argv[1:])
