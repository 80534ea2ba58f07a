"""The MongoDB sink: operations wait in an outbox and are applied once."""
