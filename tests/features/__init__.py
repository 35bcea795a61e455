"""Features of plans, each with its claim, and the plans that marry them."""
