"""Checks of code, tests and data whose results are evidence that criteria, edges and gates can use."""
