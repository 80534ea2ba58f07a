"""Sinks whose validators do not say what their writers say, or leave something behind."""

from __future__ import annotations

import pyarrow

from tpc.errors import DataError
from tpc.testing.directory_sink import DirectorySink, DirectoryValidator


class RefusesWhatIsTaken(DirectorySink):
    """Its validator refuses NULL in every column, though the writer takes it in all but the key."""

    class Validator(DirectoryValidator):
        """Good rows would become dead letters."""

        def validate(self, batch: pyarrow.RecordBatch) -> None:
            super().validate(batch)
            if any(column.null_count for column in batch.columns):
                raise DataError("a column is NULL", sink=self.sink.name)

    validator_class = Validator


class ValidatesByWriting(DirectorySink):
    """Its validator has a writer write the rows, and lets them lie."""

    class Validator(DirectoryValidator):
        """What is left of it is never decided, and never gone."""

        def validate(self, batch: pyarrow.RecordBatch) -> None:
            self.sink.writer(self.handle, self.schema, self.hint).write(batch)

    validator_class = Validator


class RemembersRefusals(DirectorySink):
    """Its validator refuses all that comes after a row that it has refused, as an aborted transaction does."""

    class Validator(DirectoryValidator):
        """One odd row would take all others of its epoch along."""

        is_failed = False

        def validate(self, batch: pyarrow.RecordBatch) -> None:
            if self.is_failed:
                raise DataError("a row before this one was refused", sink=self.sink.name)
            self.is_failed = True
            super().validate(batch)
            self.is_failed = False

    validator_class = Validator
