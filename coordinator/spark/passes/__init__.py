"""The pass: one execution of a batch's plan that feeds every sink's writers and prepares every branch."""
