"""One runner of faults: processes of a pipeline that are started, hit, awaited and judged, until one is at the end.

A fault is a value (`faults.fault.StepFault`), made by the process that comes to its step (`faults.injector`). Which
life gets which fault, and when the next one begins, is in `rounds`; what a life is told in `orders`, how it is given up
and recorded in `lives`, what came of a fault in `attempts`, and what each exit code says in `ends`.

`tpc chaos run`, the programs, the demo and the soak run under a supervisor, as in production, and use all of it. The
matrix forks its lives from a warm process (`matrix.lives`), since it has a thousand of them: its cases share the fault,
its recording, the signals and the ends, and say themselves what comes after what.
"""
