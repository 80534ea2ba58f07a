"""The programs of docs/examples that newcomers copy: fed, killed at random steps, compared with a plain computation."""
