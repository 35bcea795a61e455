"""The lint rules: each with its codes and a function of the view; ``table`` lists them and runs them."""
