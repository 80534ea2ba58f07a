"""The intent log: the journal, and the places where its records may lie."""
