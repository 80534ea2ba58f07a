"""The PostgreSQL sink: each branch is a prepared transaction."""
