"""What every pass over an epoch's rows is made of, whoever runs it: sinks fed, rows counted and digested, a manifest.

Knows no runtime: it is given Arrow batches in which the rows of each route are marked (`RoutePlan`).
"""
