"""What a fault is, and how it is made at a step of the protocol.

`fault` names faults, `hits` records which steps every process reaches, `injector` is the action that stands at every
step and makes the fault where its time has come. Which faults are worth trying is in `chaos.matrix`.
"""
