"""The lint rules: one file each with the codes it gives and ``check(view)``; ``table`` lists them and runs them."""
