"""What is made of the record of a run: HTML pages, one file each, which fetch nothing, and the table of the checks."""
